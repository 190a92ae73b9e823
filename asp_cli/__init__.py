"""The command line: one thin command per stage; flags become a config, the stage does the work."""
