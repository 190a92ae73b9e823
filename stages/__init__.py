"""The offline stages, in data order: profile, predictor, partition, balance, emit."""
