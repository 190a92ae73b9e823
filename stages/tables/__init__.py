"""Every Parquet table of the toolchain, and the only code that opens one."""
