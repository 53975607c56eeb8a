"""Estimators: probes, concept vectors, concept bottlenecks, baselines.

Each is a scikit-learn estimator whose fitted attributes are plain arrays.

probes       `mlp.MLPProbe`, `mlp.fit_many` for many at once; `linear`; `frames.FrameProbe`
concepts     `concepts.ConceptBank`, `concepts.concept_targets`, `concept_report`
bottlenecks  `bottleneck.Bottleneck` with a head of `heads`
baselines    `baselines`
by name      `registry.build`, for the kinds that a protocol names
"""
