"""Videos as numbers of pictures: probe, sampling, exact decoding, decoding in worker processes."""
