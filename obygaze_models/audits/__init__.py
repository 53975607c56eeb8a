"""Exact instruments for bias: association tests, captions, gender score, MediaEval."""
