"""Estimators: probes, concept vectors, concept bottlenecks, baselines.

Each is a scikit-learn estimator whose fitted state is plain arrays (`state`).

probes       `mlp.MLPProbe`, `mlp_many.fit_many` for many at once; `linear`; `frames.FrameProbe`
concepts     `concept_targets`, `concepts.ConceptBank`, `concept_report`
bottlenecks  `bottleneck.Bottleneck` with a head: `heads`, `sparse_head`, `scorecard`, `ordinal`,
             and `residual` beside it; `interventions`, `purity`
baselines    `baselines`
"""
