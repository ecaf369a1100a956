"""CSV files as programs write them: no byte of one person changes how the rows of others are read."""

import gc
import gzip
import json
import os
import random
import signal
import stat
import subprocess
import sys
import tempfile
import time

import pyarrow as pa
import pytest

from osgt import Dataset
from osgt.data import text_files
from osgt.data.engines.query import compile_query, fetch
from osgt.data.text_files import CleanFiles, TextForm
from osgt.ledger import Ledger
from stands import STANDS

#: Engines that read files.
FILES = [name for name, stand in STANDS.items() if stand.reads_files]

FORM = TextForm(",", '"', "utf-8")
OTHERS = [b"p%d,x,%d" % (i, i) for i in range(5)]


@pytest.fixture(params=FILES)
def engine(request, engine_of):
    engine_of(request.param)
    return request.param


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A folder for temporary files that nobody else uses."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def rows_of(path, engine="duckdb", **options):
    """The rows that the engine reads, by person."""
    data = Dataset(path, "person", engine=engine, **options)
    rows = fetch(compile_query(data.table)).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=str)


def file_of(folder, lines, name="x.csv", end=b"\n"):
    (folder / name).write_bytes(end.join([b"person,town,whole", *lines]) + end)
    return folder / name


class TestCarriageReturns:
    def test_they_end_no_row(self, engine, tmp_path):
        """One person's free text would be a thousand rows with units of their own."""
        text = b"".join(b"\rnobody%d,Oslo,1" % i for i in range(1000))
        for end in (b"\n", b"\r\n"):
            rows = rows_of(file_of(tmp_path, [*OTHERS, b"q,x" + text, *OTHERS], end=end), engine)
            assert len(rows) == 11
            assert {row[0] for row in rows} == {"q", *(f"p{i}" for i in range(5))}

    def test_they_are_spaces(self, engine, tmp_path):
        path = file_of(tmp_path, [b"a,x\ry,1", b'b,"x\ry",2', b"c,x\r\r y,3"])
        assert [row[1] for row in rows_of(path, engine)] == ["x y", "x y", "x   y"]

    def test_other_rows_stay_as_they_are(self, engine, tmp_path):
        """Line ends inside quotes, and those of rows, are the same whether or not a copy is read."""
        others = [b'a,"x\ny",1', b'b,"x\r\ny",2', b"c,\xc3\xbc,3", b'd,"",4', b"e,,5"]
        for end in (b"\n", b"\r\n"):
            usual = rows_of(file_of(tmp_path, others, end=end), engine)
            assert len(usual) == 5
            for line in (b"z,x\ry,1", b"z,\xfc,1", b"z,\0,1", b"z\r,,1"):
                for lines in ([line, *others], [*others, line]):
                    rows = rows_of(file_of(tmp_path, lines, end=end), engine)
                    assert [row for row in rows if row[0].strip() != "z"] == usual, (line, end)

    def test_lines_that_end_in_two_ways(self, engine, tmp_path):
        """The first line may end as no other does."""
        for head, end in ((b"\n", b"\r\n"), (b"\r\n", b"\n")):
            (tmp_path / "x.csv").write_bytes(b"person,town,whole" + head + end.join(OTHERS) + end)
            assert rows_of(tmp_path / "x.csv", engine) == [(f"p{i}", "x", str(i)) for i in range(5)]
            (tmp_path / "x.csv").write_bytes(b"person,town,whole" + end + OTHERS[0] + head + end.join(OTHERS[1:]))
            assert rows_of(tmp_path / "x.csv", engine) == [(f"p{i}", "x", str(i)) for i in range(5)]

    def test_packed_files_and_several(self, engine, tmp_path):
        content = file_of(tmp_path, [b"a,x\ry,1"], "part 1.csv").read_bytes()
        (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(content))
        with pa.output_stream(str(tmp_path / "packed.csv.zst"), compression="zstd") as stream:
            stream.write(content)
        file_of(tmp_path, [b"b,z,2"], "part 2.csv")
        assert rows_of(tmp_path / "packed.csv.gz", engine) == [("a", "x y", "1")]
        assert rows_of(tmp_path / "packed.csv.zst", engine) == [("a", "x y", "1")]
        assert rows_of(tmp_path / "part *.csv", engine) == [("a", "x y", "1"), ("b", "z", "2")]

    def test_files_of_old_macs_are_refused(self, engine, tmp_path):
        path = tmp_path / "x.csv"
        for content in (b"person,town\ra,x\rb,y\r", b"person,town\ra,x\rb,y\n"):
            path.write_bytes(content)
            with pytest.raises(
                ValueError, match="must end with a line feed, not with a carriage return alone"
            ) as error:
                Dataset(path, "person", engine=engine)
            assert "a,x" not in str(error.value)


def test_copies_are_right_wherever_a_piece_ends(tmp_path, monkeypatch, temporary):
    """Against the whole file at once; bytes of any kind, in pieces of any size."""
    random_ = random.Random(7)
    pieces = [b"\r", b"\n", b"\r\n", b"a", b",", "ü".encode(), "€".encode(), b"\xe2\x82", b"\xff", b"\0", "😀".encode()]
    for size in (1, 2, 3, 7):
        monkeypatch.setattr(text_files, "_CHUNK", size)
        for i in range(150):
            content = b"".join(random_.choices(pieces, k=random_.randrange(12)))
            path = tmp_path / f"{size}_{i}.csv"
            path.write_bytes(content)
            text = content.decode("utf-8", "replace").replace("\0", "\ufffd")
            expected = text.replace("\r\n", "\n\n").replace("\r", " ").replace("\n\n", "\r\n")
            if "\n\n" not in text and "\n\r\n" not in text:  # which the lines above take for one
                clean = CleanFiles([path], FORM)
                assert clean.paths[0].read_bytes().decode() == expected, content
            clean = CleanFiles([path], FORM, one_line_end=True)
            read = clean.paths[0].read_bytes()
            assert read.replace(b"\r\n", b"\n") == text.replace("\r\n", "\n").replace("\r", " ").encode(), content
            assert read.count(b"\r\n") in (0, read.count(b"\n")), content
    del clean
    assert not [*temporary.iterdir()]


class TestCopies:
    @pytest.fixture
    def path(self, tmp_path):
        return file_of(tmp_path, [b"a,x\ry,1"])

    def test_nobody_else_reads_them_and_none_stays(self, path, temporary):
        data = Dataset(path, "person")
        [folder] = temporary.iterdir()
        [copy] = folder.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
        other = Dataset(path, "person", types={"whole": "int64"})
        assert [*temporary.iterdir()] == [folder]  # the same is read by both
        data.close()
        assert fetch(compile_query(other.table)).num_rows == 1
        del other
        gc.collect()
        assert not [*temporary.iterdir()]

    def test_none_is_made_of_a_clean_file(self, tmp_path, temporary):
        path = file_of(tmp_path, ["a,Zürich,1".encode()], end=b"\r\n")
        data = Dataset(path, "person", encoding="utf-8")
        assert fetch(compile_query(data.table)).num_rows == 1
        assert not [*temporary.iterdir()]

    def test_none_stays_after_an_error(self, tmp_path, path, temporary, monkeypatch):
        with pytest.raises(ValueError, match="privacy_unit"):
            Dataset(path, "nobody")
        gc.collect()
        assert not [*temporary.iterdir()]
        whole = gzip.compress(os.urandom(100_000))
        (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"person\n") + whole[:50_000])
        with pytest.raises(OSError, match="cannot be read, or not be unpacked"):
            Dataset(tmp_path / "x.csv.gz", "person", encoding="latin-1")
        gc.collect()
        assert not [*temporary.iterdir()]

    def test_no_room(self, path, temporary):
        """In a process that may write eight bytes, as on a full disk."""
        code = (
            "import resource; from osgt import Dataset\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8))\n"
            f"try: Dataset({str(path)!r}, 'person')\n"
            "except OSError as error: print(error)"
        )
        environment = os.environ | {"TMPDIR": str(temporary)}
        run = subprocess.run(
            [sys.executable, "-c", code], env=environment, check=True, stdout=subprocess.PIPE, text=True
        )
        assert "there is no room for one in" in run.stdout
        assert "TMPDIR" in run.stdout
        assert not [*temporary.iterdir()]

    def test_what_a_killed_process_left_goes_with_the_next(self, path, temporary):
        code = f"from osgt import Dataset; d = Dataset({str(path)!r}, 'person'); print('open', flush=True); input()"
        environment = os.environ | {"TMPDIR": str(temporary)}
        killed = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        assert killed.stdout.readline() == b"open\n"
        [left] = temporary.iterdir()
        long_ago = time.time() - 1000
        os.utime(left, (long_ago, long_ago))
        Dataset(path, "person").close()
        assert left.exists()  # it is read
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        killed.stdin.close()
        killed.stdout.close()
        data = Dataset(path, "person")
        assert not left.exists()
        data.close()

    def test_a_process_that_ends_leaves_none(self, path, temporary):
        code = f"from osgt import Dataset; d = Dataset({str(path)!r}, 'person'); raise SystemExit(3)"
        environment = os.environ | {"TMPDIR": str(temporary)}
        assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 3
        assert not [*temporary.iterdir()]

    def test_a_file_that_changed_is_refused_before_the_charge(self, tmp_path):
        path = file_of(tmp_path, OTHERS)
        ledger = Ledger(tmp_path / "budget.db")
        ledger.open("people", epsilon=1, delta=1e-6, unit="person")
        data = Dataset(path, "person", ledger=ledger, dataset="people")
        query = data.group_by(max_rows_per_group=1).count()
        file_of(tmp_path, [*OTHERS, b"q,x\rnobody,y,1"])
        with pytest.raises(ValueError, match="has changed since it was opened; open it again"):
            query.release(1, 0)
        assert not ledger.history("people")


class TestTabs:
    def test_a_quote_is_text(self, engine, tmp_path):
        """One person whose text begins with a quote would remove all after her."""
        lines = [b"person\ttown\twhole", b'q\t"never closed\t1', *(b"p%d\tx\t%d" % (i, i) for i in range(700))]
        (tmp_path / "x.tsv").write_bytes(b"\n".join([*lines, b"r\t\0never\t1", b"s\tx\\\t1"]) + b"\n")
        rows = rows_of(tmp_path / "x.tsv", engine)
        assert len(rows) == 703
        assert {row[1] for row in rows} == {'"never closed', "x", "\ufffdnever", "x\\"}

    def test_quotes_can_be_given(self, engine, tmp_path):
        (tmp_path / "x.tsv").write_bytes(b"person\ttown\n" + b'a\t"x\ty"\nb\t"z"\n')
        assert rows_of(tmp_path / "x.tsv", engine, quote='"') == [("a", "x\ty"), ("b", "z")]
        assert rows_of(tmp_path / "x.tsv", engine) == [("a", '"x'), ("b", '"z"')]
        (tmp_path / "x.csv").write_bytes(b"person,town\n" + b"a,'x,y'\nb,\"z\n")
        assert rows_of(tmp_path / "x.csv", engine, quote="'") == [("a", "x,y"), ("b", '"z')]
        assert rows_of(tmp_path / "x.csv", engine, quote="none") == [("a", "'x"), ("b", '"z')]

    def test_names_have_the_quotes_of_fields(self, tmp_path):
        (tmp_path / "x.tsv").write_bytes(b'person\t"town\na\tx\n')
        assert Dataset(tmp_path / "x.tsv", "person").table.columns.keys() == {"person", '"town'}

    @pytest.mark.parametrize("quote", ["", "''", "\n", "ü", 5, "nothing"])
    def test_what_is_no_quote(self, tmp_path, quote):
        with pytest.raises(ValueError, match="quote must be one character"):
            Dataset(file_of(tmp_path, OTHERS), "person", quote=quote)


class TestEncodings:
    TOWNS = ("Zürich", "Genève", "Oslo")

    @pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8-sig", "mac-roman"])
    def test_no_row_is_lost(self, engine, tmp_path, encoding):
        text = "person,größe,town\r\n" + "".join(f"{town},1,{town}\ry\r\n" for town in self.TOWNS)
        (tmp_path / "x.csv").write_bytes(text.encode(encoding))
        rows = rows_of(tmp_path / "x.csv", engine, encoding=encoding, types={"größe": "int64"})
        assert rows == sorted((town, 1, f"{town} y") for town in self.TOWNS)

    def test_what_is_no_text(self, engine, tmp_path):
        """Wherever the row stands, and whichever column is used, it is read."""
        for place in (0, 5):
            lines = [*OTHERS[:place], "q,Zürich,7".encode("latin-1"), *OTHERS[place:]]
            rows = rows_of(file_of(tmp_path, lines), engine)
            assert len(rows) == 6
            assert rows[-1] == ("q", "Z\ufffdrich", "7")

    @pytest.mark.parametrize("encoding", ["klingon", "rot13", "hex", "", 5, "x\0"])
    def test_what_is_no_encoding(self, tmp_path, encoding):
        with pytest.raises(ValueError, match="encoding must be the name of a text encoding"):
            Dataset(file_of(tmp_path, OTHERS), "person", encoding=encoding)

    @pytest.mark.parametrize("encoding", ["utf-7", "hz", "iso2022_jp", "unicode_escape", "raw_unicode_escape", "idna"])
    def test_encodings_in_which_one_row_changes_the_next(self, tmp_path, encoding):
        with pytest.raises(ValueError, match="encoding must be one in which the text of one row does not change"):
            Dataset(file_of(tmp_path, OTHERS), "person", encoding=encoding)

    @pytest.mark.parametrize("encoding", ["shift_jis", "gb18030", "big5", "euc_kr", "utf-16", "utf-8"])
    def test_half_a_character_ends_no_row_of_others(self, tmp_path, encoding):
        text = "person,town\n", "q,x", "\np1,x\np2,x\n"
        before, hers, after = (part.encode(encoding.replace("16", "16-le")) for part in text)
        before = before if encoding != "utf-16" else b"\xff\xfe" + before
        half = b"\x00\xd8" if encoding == "utf-16" else b"\x81" if encoding != "utf-8" else b"\xe2\x82"
        (tmp_path / "x.csv").write_bytes(before + hers + half + after)
        rows = rows_of(tmp_path / "x.csv", encoding=encoding)
        assert [row[0] for row in rows] == ["p1", "p2", "q"]

    def test_names_that_are_no_text(self, tmp_path):
        (tmp_path / "x.csv").write_bytes("person,größe\na,1\n".encode("latin-1"))
        with pytest.raises(ValueError, match="in UTF-8; if the file has another encoding, as latin-1"):
            Dataset(tmp_path / "x.csv", "person")


class TestNumbersAndDates:
    #: The field, and what it is with a decimal comma, for each type that it fits.
    COMMAS = {
        "1,5": {"real": 1.5, "price": "1.50"},
        "-1,25": {"real": -1.25, "price": "-1.25"},
        ",5": {"real": 0.5, "price": "0.50"},
        "3,0": {"whole": 3, "real": 3.0, "price": "3.00"},
        "12": {"whole": 12, "real": 12.0, "price": "12.00"},
        "1,5e3": {"real": 1500.0},
        "1.5": {},
        "1.234,5": {},
        "1,2,3": {},
        "1,234": {"real": 1.234},
        "": {},
    }
    TYPES = {"whole": "int64", "real": "float64", "price": "decimal(10, 2)"}

    def test_decimal_commas(self, engine, tmp_path):
        lines = [f"{i};{field};{field};{field}" for i, field in enumerate(self.COMMAS)]
        (tmp_path / "x.csv").write_text("\n".join(["person;whole;real;price", *lines]) + "\n")
        data = Dataset(tmp_path / "x.csv", "person", types=self.TYPES, delimiter=";", decimal=",", engine=engine)
        for row in fetch(compile_query(data.table)).to_pylist():
            field, values = [*self.COMMAS.items()][int(row.pop("person"))]
            read = {k: str(v) if k == "price" else v for k, v in row.items() if v is not None}
            assert read == values, field

    DATES = {
        "%d.%m.%Y": {
            "31.12.2024": "2024-12-31", " 1.2.2024 ": "2024-02-01", "31.12.24": None, "2024-12-31": None,
            "12.31.2024": None, "29.02.2023": None, "31.12.2024 10:00": None, "01.01.0000": None, "x": None,
        },
        "%m/%d/%Y": {"12/31/2024": "2024-12-31", "31/12/2024": None, "1/2/2024": "2024-01-02"},
        "%Y%m%d": {"20241231": "2024-12-31", "2024111": None, "2024-12-31": None},
        "%d. %m. %Y": {"31. 12. 2024": "2024-12-31", "31.12.2024": None},
    }  # fmt: skip

    def test_dates(self, engine, tmp_path):
        for form, fields in self.DATES.items():
            lines = [f"{i},{field},{field} 14:30:05.5" for i, field in enumerate(fields)]
            (tmp_path / "x.csv").write_text("\n".join(["person,day,moment", *lines]) + "\n")
            types = {"day": "date", "moment": "timestamp"}
            data = Dataset(tmp_path / "x.csv", "person", types=types, date_format=form, engine=engine)
            for row in fetch(compile_query(data.table)).to_pylist():
                field, day = [*fields.items()][int(row["person"])]
                assert (row["day"] and str(row["day"])) == day, field
                moment = row["moment"] and str(row["moment"])
                assert moment == ((day and not field.endswith(" ") and f"{day} 14:30:05.500000") or None), field

    @pytest.mark.parametrize("decimal", ["", ";", ",,", 5])
    def test_what_is_no_decimal_sign(self, tmp_path, decimal):
        with pytest.raises(ValueError, match="decimal must be"):
            Dataset(file_of(tmp_path, OTHERS), "person", decimal=decimal)

    @pytest.mark.parametrize("form", ["", "%d.%m.%y", "%d.%m", "%d.%m.%Y %H", "%d'%m'%Y", "%d%d%m%Y", "%d]%m]%Y", 5])
    def test_what_is_no_form_of_dates(self, tmp_path, form):
        with pytest.raises(ValueError, match="date_format must have %d"):
            Dataset(file_of(tmp_path, OTHERS), "person", date_format=form)

    @pytest.mark.parametrize("name", ["quote", "encoding", "decimal", "date_format"])
    def test_frames_have_none_of_them(self, name):
        with pytest.raises(ValueError, match=f"{name} is for CSV files"):
            Dataset(pa.table({"person": ["a"]}), "person", **{name: ","})


class TestLongRows:
    def test_a_long_field_is_one_field(self, tmp_path):
        """Beyond two buffers DuckDB would take its lines for rows."""
        with (tmp_path / "x.csv").open("wb") as file:
            file.write(b'person,town,whole\nq,"' + b"nobody\n" * 10_000_000 + b'",1\n' + b"\n".join(OTHERS) + b"\n")
        assert rows_of(tmp_path / "x.csv") == [(f"p{i}", "x", str(i)) for i in range(5)]

    def test_a_row_of_many_fields(self, engine, tmp_path):
        path = file_of(tmp_path, [b"q,x,7" + b"," * 100_000, *OTHERS])
        assert rows_of(path, engine)[-1] == ("q", "x", "7")

    def test_names_of_folders_say_nothing(self, engine, tmp_path):
        (tmp_path / "town=Oslo").mkdir()
        assert rows_of(file_of(tmp_path / "town=Oslo", OTHERS), engine)[0] == ("p0", "x", "0")


class TestPreview:
    def test_what_went_wrong_is_counted(self, engine, tmp_path):
        lines = [b"a,Z\xfcrich,1", b'b,"x\ny\nz",2', b"c,x,3", b",x,4", b'd,"x\ny",5', b"e,x,\xfc"]
        path = file_of(tmp_path, lines)
        data = Dataset(path, "person", types={"whole": "int64"}, engine=engine)
        preview = data.group_by(max_rows_per_group=1).count().preview()
        assert preview.undecoded == 2
        assert {name: (each.number, each.longest) for name, each in preview.line_ends.items()} == {"town": (2, 3)}
        assert preview.misfits["whole"].number == 1
        assert preview.rows["without_a_unit"] == 1
        text = str(preview)
        assert "2 rows have bytes that are no text in the encoding of the file" in text
        assert "2 fields of town have line ends inside quotes, the longest 3 lines." in text
        assert "1 row has no unit that can be read, and is ignored in a release." in text
        assert preview.to_dict()["line_ends"] == {"town": {"number": 2, "longest": 3}}

    def test_misfits_with_a_comma_and_another_order(self, engine, tmp_path):
        (tmp_path / "x.csv").write_text("person;fare;born\na;1,5;31.12.2024\nb;1.5;2024-12-31\nc;x;5/6/2024\n")
        types = {"fare": "float64", "born": "date"}
        options = {"delimiter": ";", "types": types, "engine": engine}

        def misfits(**more):
            data = Dataset(tmp_path / "x.csv", "person", **options, **more)
            return data.group_by(max_rows_per_group=1).count().preview().misfits

        fare, born = misfits().values()
        assert (fare.number, fare.commas, fare.points) == (2, 1, 0)
        assert (born.number, born.dates) == (2, 2)
        assert '1 of them has a decimal comma: if all have one, give decimal as ","' in fare.words("fare")
        assert "2 of them have day, month and year in another order: give date_format" in born.words("born")
        fare, born = misfits(decimal=",", date_format="%d.%m.%Y").values()
        assert (fare.number, fare.commas, fare.points, fare.example) == (2, 0, 1, "12,5")
        assert (born.number, born.dates, born.example) == (2, 1, "03.05.2026")

    def test_frames_and_clean_files(self, tmp_path):
        preview = Dataset(file_of(tmp_path, OTHERS), "person").group_by(max_rows_per_group=1).count().preview()
        assert (preview.undecoded, preview.line_ends) == (0, {})
        frame = pa.table({"person": ["a"], "text": ["x\ny"]})
        preview = Dataset(frame, "person").group_by(max_rows_per_group=1).count().preview()
        assert (preview.undecoded, preview.line_ends) == (0, {})


def test_nothing_of_it_is_published(tmp_path):
    """What is told of lines that cannot be read is for the steward alone."""
    path = file_of(tmp_path, [*OTHERS, b",x,1", b"a,Z\xfcrich,1"])
    data = Dataset(path, "person", types={"whole": "int64"})
    release = data.group_by(max_rows_per_group=1).count().release(1, 0)
    release.report(tmp_path / "report.html")
    text = json.dumps(release.statement.to_dict()) + (tmp_path / "report.html").read_text(encoding="utf-8")
    for words in ("NOT PRIVATE", "can be read", "undecoded", "line_ends"):
        assert words not in text
