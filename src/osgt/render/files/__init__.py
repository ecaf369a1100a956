"""Published files: CSV, Parquet, Excel, CSV on the Web, registry entries; written and read again."""
