"""The commands of `obygaze`, and the groups of commands; the command and `og` are made of them."""

# In the order of `obygaze --help`; the third text is the heading under which it lists a command. A
# key of several words is a command of a group.
COMMANDS: dict[str, tuple[str, str] | tuple[str, str, str]] = {
    "demo": (
        "obygaze.demo.tour:demo",
        "Run all steps on made-up films, offline, in a minute or two.",
        "Start here",
    ),
    "doctor": (
        "obygaze.doctor:doctor",
        "Show versions, devices, leftovers, and what is missing.",
        "Start here",
    ),
    "manifest": (
        "obygaze_features.manifest.commands:manifest",
        "Import, inspect and edit manifests: clips, labels, splits.",
        "Data",
    ),
    "video": (
        "obygaze_features.video.commands:video",
        "Describe video files, and save the pictures that a model sees of them.",
        "Data",
    ),
    "backbones": (
        "obygaze_features.backbones.commands:backbones",
        "List and check the models of pictures, sound and words.",
        "Features",
    ),
    "extract": (
        "obygaze_features.extraction.commands:extract",
        "Extract features from videos, with several backbones in one pass.",
        "Features",
    ),
    "store": (
        "obygaze_features.store.commands:store",
        "Inspect, verify, change and share feature stores.",
        "Features",
    ),
    "train": (
        "obygaze_models.runner.experiments:train",
        "Train one model, evaluate it on unseen films, and save it.",
        "Experiments",
    ),
    "run": (
        "obygaze_models.runner.experiments:command",
        "Run an experiment: train and test the models of a protocol.",
        "Experiments",
    ),
    "report": (
        "obygaze_models.report.commands:report_command",
        "Write the report of runs: a page, tables, figures.",
        "Experiments",
    ),
    "compare": (
        "obygaze_models.report.commands:compare_command",
        "Show runs side by side: what differs in them, and by how much.",
        "Experiments",
    ),
    "models": (
        "obygaze_models.zoo.commands:models",
        "Inspect, use and share saved models.",
        "Experiments",
    ),
    "view": (
        "obygaze.films.page.view:view",
        "Watch films, look at clips and scores, and mark segments, in the browser.",
        "Look",
    ),
    "explain": (
        "obygaze.audits.maps.commands:explain",
        "Show where in the picture and when in the clip a model finds a concept or a text.",
        "Look",
    ),
    "search": (
        "obygaze_features.extraction.functions:search",
        "Find clips by a text or a clip.",
        "Look",
    ),
    "audit": (
        "obygaze.audits.commands:audit",
        "Measure bias, or how often films show something; score predictions for MediaEval.",
        "More",
    ),
    "manifest project": (
        "obygaze.films.labels:project_segments",
        "Turn experts' segments into clip labels.",
    ),
    "manifest sample": (
        "obygaze.films.functions:sample_clips",
        "Draw clips within films at random, to be marked.",
    ),
    "manifest agree": (
        "obygaze.films.functions:measure_agreement",
        "Measure the agreement of the annotators.",
    ),
    "manifest export": (
        "obygaze.films.exchange:export_segments",
        "Write segments for other programs.",
    ),
    "manifest import segments": (
        "obygaze.films.exchange:import_segments",
        "Read segments from ELAN, WebVTT, or a table of marks.",
    ),
    "extract text": (
        "obygaze_features.extraction.text:embed_texts",
        "Embed prompts in the space of a backbone's clips.",
    ),
    "extract words": (
        "obygaze_features.extraction.functions:extract_words",
        "Make a store of what is said in clips.",
    ),
    "extract captions": (
        "obygaze_features.extraction.text:score_captions",
        "Score captions with language models.",
    ),
}
