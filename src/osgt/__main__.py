"""`python -m osgt`: the commands."""

from osgt.cli import app

if __name__ == "__main__":
    app(prog_name="osgt")
