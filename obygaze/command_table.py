"""The commands of `obygaze`, and the groups of commands; the command and `og` are made of them."""

# A key of several words is a command of a group.
COMMANDS = {
    "demo": "obygaze.demo.tour:demo",
    "doctor": "obygaze.doctor:doctor",
    "ls": "obygaze.functions:list_workspace",
    "manifest": "obygaze_features.manifest.commands:manifest",
    "video": "obygaze_features.video.commands:video",
    "backbones": "obygaze_features.backbones.commands:backbones",
    "extract": "obygaze_features.extraction.commands:extract",
    "store": "obygaze_features.store.commands:store",
    "train": "obygaze_models.runner.experiments:train",
    "run": "obygaze_models.runner.experiments:command",
    "report": "obygaze_models.report.commands:report_command",
    "compare": "obygaze_models.report.commands:compare_command",
    "models": "obygaze_models.zoo.commands:models",
    "view": "obygaze.films.page.view:view_command",
    "explain": "obygaze.audits.maps.commands:explain",
    "search": "obygaze_features.extraction.functions:search",
    "audit": "obygaze.audits.commands:audit",
    "models test": "obygaze_models.runner.experiments:test_command",
    "manifest project": "obygaze.films.functions:project_marks",
    "manifest sample": "obygaze.films.functions:sample_clips",
    "manifest agree": "obygaze.films.functions:measure_agreement",
    "manifest import": "obygaze.films.formats:import_manifest",
    "manifest export": "obygaze.films.formats:export_manifest",
    "extract text": "obygaze_features.extraction.text:embed_texts",
    "extract words": "obygaze_features.extraction.functions:extract_words",
    "extract captions": "obygaze_features.extraction.text:score_captions",
}

# What `obygaze --help` lists under each heading, in the order of work.
HEADINGS = {
    "Start here": ("demo", "doctor", "ls"),
    "Data": ("manifest", "video"),
    "Features": ("backbones", "extract", "store"),
    "Experiments": ("train", "run", "report", "compare", "models"),
    "Look": ("view", "explain", "search"),
    "More": ("audit",),
}
