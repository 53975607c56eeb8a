"""Estimators: probes, concept vectors, concept bottlenecks, baselines.

Each is a scikit-learn estimator whose fitted attributes are plain arrays.

a fit        `fitting.fit(estimator, lessons)`; `lessons.Lessons` say what it learns from
by name      `registry.build`, for the kinds that a protocol names
probes       `mlp.MLPProbe`; `linear`; `frames.FrameProbe`
concepts     `concepts.ConceptBank`, `examples.concept_targets`, `concept_report`
bottlenecks  `bottleneck.Bottleneck` with a head of `heads`
sentences    `sentences.ZeroShot`
baselines    `baselines`
"""
