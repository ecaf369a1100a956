"""An attacker in another tab, on another port, in the names and values of the data: a real browser is asked."""

import http.client
import http.server
import threading
from urllib.parse import urlencode, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from planner_page import Planner, served

from osgt import Ledger
from osgt.web.form import typed_value

SECRET = "TOPSECRET"

NAMES = [
    "<img src=x onerror=alert(1)>",
    '"><script>alert(2)</script>',
    "' onfocus='alert(3)' autofocus='",
    "abc\u202e\u2066def",
    "W" * 300,
    "data.types.x",
    "two\nlines",
    "  blanks  ",
    "{{ 7 * 7 }}{% raw %}",
    "</select></textarea></pre><b>",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    columns = {name: [f"{name}={i % 2}" for i in range(400)] for name in NAMES}
    numbers = {f"{name} #": [float(i % 3) for i in range(400)] for name in NAMES}
    pq.write_table(pa.table({"person": range(400), **columns, **numbers}), folder / "hostile.parquet")
    lines = "".join(f"{SECRET}{i},{SECRET}city{i % 3},{SECRET},{SECRET}x\n" for i in range(300))
    (folder / "secret.csv").write_text(f"person,city,fare,day\n{lines}")
    (folder / "broken.csv").write_text(f'person,city\na,"{SECRET}\nb,{SECRET},{SECRET}\n"{SECRET}"x,y\n')
    pq.write_table(
        pa.table({"person": range(300), "city": [f"{SECRET}{i % 3}" for i in range(300)], "fare": [0.5] * 300}),
        folder / "secret.parquet",
    )
    with Ledger(folder / "budget.db") as ledger:
        ledger.open("people", epsilon=5, delta=1e-5)
        ledger.open(NAMES[0], epsilon=5, delta=1e-5)
        ledger.open("secrets", epsilon=5, delta=1e-5)
    with served(folder, "--ledger", "budget.db") as running:
        yield running


@pytest.fixture
def planner(chromium, server):
    made = Planner(chromium, server.link())
    yield made
    assert [text for text in made.told if "status of 422" not in text] == []
    assert [url for url in made.asked if not url.startswith((f"{made.origin}/", "data:"))] == []
    made.close()


def charged(server, dataset="people"):
    with Ledger(server.folder / "budget.db") as ledger:
        return len(ledger.overview(dataset).releases)


COMPLETE = """
[data]
source = "secret.parquet"
privacy_unit = "person"
ledger = "budget.db"
dataset = "people"
[groups]
by = ["city"]
max_groups = 1
max_rows_per_group = 1
public_keys = ["Bern", "Rome"]
[[aggregates]]
kind = "count"
[budget]
epsilon = 1
delta = 1e-7
[output]
out = "forged.parquet"
report = "forged.html"
"""


class TestOthers:
    def test_get_nothing_and_charge_nothing(self, chromium, planner, server):
        """Whoever lacks the cookie, the path, the origin, the host or the token of the form."""
        planner.load(COMPLETE)
        fields = planner.page.evaluate("[...new FormData(document.getElementById('planner'))]")
        form_token = dict(fields)["token"]
        [cookie] = planner.context.cookies(f"{planner.root}/")
        assert cookie["httpOnly"]
        assert cookie["sameSite"] == "Strict"
        parts = urlsplit(planner.root)
        right = {
            "Host": parts.netloc,
            "Origin": planner.origin,
            "Cookie": f"{cookie['name']}={cookie['value']}",
            "Content-Type": "application/x-www-form-urlencoded",
        }

        def status(path=f"{parts.path}/publish", token=form_token, extra=0, **changed):
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=300)
            ours = [(name, value) for name, value in fields if name != "token"]
            body = urlencode([*ours, ("token", token), ("more", "x" * extra)])
            headers = {key.replace("_", "-"): value for key, value in {**right, **changed}.items() if value is not None}
            connection.putrequest("POST", path, skip_host=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body.encode())
            found = connection.getresponse().status
            connection.close()
            return found

        wrong = [
            {"Cookie": None},
            {"Cookie": f"{cookie['name']}=x"},
            {"Host": "evil.example"},
            {"Host": f"evil.example:{parts.port}", "Origin": f"http://evil.example:{parts.port}"},
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Origin": None},
            {"token": "x"},
            {"token": ""},
            {"path": "/publish"},
            {"path": "/x/publish"},
        ]
        assert [status(**changed) for changed in wrong] == [403] * len(wrong)
        assert status(extra=1 << 20) == 413
        other = chromium.new_context()
        assert [other.request.get(f"{planner.root}{path}").status for path in ("/", "/help", "/jobs/x")] == [403] * 3
        other.close()
        assert charged(server) == 0
        # Power: the same with nothing wrong is published.
        assert status() == 303

    def test_a_used_link(self, chromium, planner, server):
        context = chromium.new_context()
        page = context.new_page()
        used = server.link()
        assert page.goto(used).status == 200
        page.wait_for_selector("#planner")
        assert page.goto(used).status == 403
        assert chromium.new_context().request.get(used).status == 403
        context.close()

    def test_a_page_of_another_origin(self, planner, server):
        """It can neither send a form nor read, frame or run anything; and the browser sends it no cookie."""
        seen = []

        class Evil(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                seen.append(self.headers.get("Cookie", ""))
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(b"<!doctype html><title>evil</title><img src=/again>")

            def log_message(self, *arguments):
                pass

        evil = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Evil)
        threading.Thread(target=evil.serve_forever, daemon=True).start()
        before = charged(server)
        try:
            page = planner.context.new_page()
            page.goto(f"http://127.0.0.1:{evil.server_port}/")
            page.wait_for_load_state("networkidle")
            found = page.evaluate(
                """async (root) => {
                    const answers = [];
                    for (const options of [{}, {mode: "no-cors", credentials: "include"}, {method: "POST"}]) {
                        try {
                            const answer = await fetch(`${root}/`, options);
                            answers.push([answer.type, await answer.text()]);
                        } catch (error) { answers.push(["refused", ""]); }
                    }
                    const frame = document.createElement("iframe");
                    frame.src = `${root}/`;
                    const loaded = new Promise((resolve) => { frame.onload = resolve; setTimeout(resolve, 2000); });
                    document.body.append(frame);
                    await loaded;
                    try { answers.push(["frame", frame.contentDocument.body.innerText]); }
                    catch (error) { answers.push(["refused", ""]); }
                    return answers;
                }""",
                planner.root,
            )
            page.set_content(f"<form method=post action='{planner.root}/publish'><button>go</button></form>")
            with page.expect_navigation() as going:
                page.click("button")
            assert going.value.status == 403
        finally:
            evil.shutdown()
            evil.server_close()
        assert all(text == "" for _, text in found), found
        assert len(seen) >= 2
        assert "osgt" not in "".join(seen)
        assert charged(server) == before
        page.close()
        # What this test has provoked on purpose.
        planner.told.clear()
        planner.asked.clear()


class TestNames:
    def test_stay_text_and_can_be_chosen_and_published(self, planner, server):
        """Columns, keys, labels, the data set of the ledger: no element, no dialog, no request."""
        planner.type("data.source", "hostile.parquet")
        planner.choose("data.dataset", NAMES[0])
        planner.choose("unit", "column:person")
        for number, name in enumerate(NAMES):
            planner.choose("groups.by", name, number)
            assert planner.field("groups.by").nth(number).input_value() == name
        planner.choose("keys.kind", "lists")
        for name in NAMES:
            lines = [f"{name}={i}" for i in range(2)] if name.strip() == name and "\n" not in name else ["other"]
            planner.type(f"keys.list.{name}", "\n".join(map(typed_value, lines)))
        for number, name in enumerate(NAMES[:1] + NAMES[6:8]):
            planner.choose(f"aggregates.{number}.kind", "sum")
            planner.choose(f"aggregates.{number}.column", f"{name} #")
            planner.type(f"aggregates.{number}.bounds.low", "0")
            planner.type(f"aggregates.{number}.bounds.high", "3")
        planner.type("groups.max_groups", "1")
        planner.type("groups.max_rows_per_group", "1")
        planner.type("budget.epsilon", "1")
        planner.type("budget.delta", "1e-6")
        planner.unfold()
        planner.type(f"report.labels.{NAMES[0]}", NAMES[1])
        assert planner.page.locator(".problem:not(:empty)").count() == 0, planner.words("#numbers")
        assert planner.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        found = planner.page.locator("#main :is(script, img, b, [onerror], [onfocus])").count()
        assert found == 0
        assert "\u202e" not in planner.page.inner_text("#main")
        planner.publish("names.parquet", "names.html")
        assert "Published" in planner.words()
        assert planner.page.locator("#main :is(script, img, b, [onerror], [onfocus])").count() == 0
        table = pq.read_table(server.folder / "names.parquet")
        assert table.column_names[: len(NAMES)] == NAMES
        assert table.num_rows == 2 ** (len(NAMES) - 2)
        assert charged(server, NAMES[0]) == 1


class TestSecrets:
    def test_nothing_of_the_data_reaches_the_page_before_it_is_published(self, planner, server):
        """Whatever is wrong with them, and whatever is typed; the switch for exact figures is never ticked."""
        bodies = []

        def keep(route):
            answer = route.fetch(max_redirects=0)
            bodies.append(answer.body().decode("utf-8", "replace"))
            route.fulfill(response=answer)

        planner.context.route("**/*", keep)
        page = planner.page
        page.goto(f"{planner.root}/")
        for source in ("broken.csv", "secret.csv", "secret.parquet", "secret.csv"):
            planner.type("data.source", source)
        for unit in ("person", "city"):
            planner.choose("unit", f"column:{unit}")
        planner.choose("groups.by", "day")
        planner.choose("data.dataset", "secrets")
        planner.choose("aggregates.0.kind", "sum")
        planner.choose("aggregates.0.column", "fare")
        for kind in ("int64", "float64", "date", "timestamp", "boolean", "float64"):
            planner.choose("data.types.fare", kind)
        planner.type("aggregates.0.bounds.low", "0")
        planner.type("aggregates.0.bounds.high", "3")
        planner.unfold()
        for where in ("CAST(fare AS INTEGER) > 1 / 0", "day > 5", "length(city) > 3", "nothing", "error(city)", ""):
            planner.type("data.where", where)
        planner.type("derive.0.name", "more")
        for sql in ("CAST(day AS DATE)", "city + 1", "year(day)", "cut(fare, 0.0, 1, 2)"):
            planner.type("derive.0.sql", sql)
        planner.type("groups.max_groups", "1")
        planner.type("groups.max_rows_per_group", "1")
        planner.type("budget.epsilon", "1")
        planner.type("budget.delta", "1e-7")
        planner.choose("keys.kind", "lists")
        planner.type("keys.list.day", "Monday")
        assert planner.page.locator("#numbers table").count() >= 1, planner.words("#numbers")
        preview = planner.reach(page.locator("button[value=preview]"))
        with planner.updating():
            preview.click()
        for path in ("query.toml", "release.py"):
            planner.download(f"button[formaction$='/{path}']")
        planner.context.unroute("**/*")
        planner.publish("secret-out.parquet", "secret-out.html")
        assert "Published" in planner.words(), planner.words("#charge")
        bodies.append(page.content())
        assert len(bodies) > 30
        assert [body[max(body.find(SECRET) - 200, 0) :][:400] for body in bodies if SECRET in body] == []

    def test_the_switch_shows_exact_figures(self, planner):
        """Power: what the test above would find."""
        planner.load(
            COMPLETE.replace('public_keys = ["Bern", "Rome"]\n', "").replace(
                "max_groups = 1\nmax_rows_per_group = 1\n", ""
            )
        )
        planner.unfold()
        planner.tick("[name='preview.confirm']")
        with planner.updating():
            planner.page.click("button[value=preview]")
        assert planner.page.locator(".alarm").count() == 1
