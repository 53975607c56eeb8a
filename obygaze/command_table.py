"""The table of the commands of `obygaze` and of its groups of commands."""

from obygaze_features.core.options import Command, Option

# The titles of groups of options.
FOR_MARKS = "For marks"
FOR_TABLES = "For tables"
FOR_RATINGS = "For a table of ratings"

# Options that train, test and run share.
STORES = Option("--store", metavar="NAME=STORE", is_repeated=True)
CHANGES = Option("--set", metavar="KEY=VALUE")
RUN_NAME = Option("-o --output", metavar="NAME", shown_default="made from the inputs")
JOBS = Option("--jobs", minimum=0, shown_default="one per core")

COMMANDS: dict[str, Command | str] = {
    "demo": "obygaze.demo.tour:demo",
    "doctor": "obygaze.doctor:doctor",
    "ls": Command("obygaze.contents:ls"),
    "manifest": "obygaze_features.manifest.commands:manifest",
    "video": "obygaze_features.video.commands:video",
    "backbones": "obygaze_features.backbones.commands:backbones",
    "extract": "obygaze_features.extraction.commands:extract_group",
    "store": "obygaze_features.store.commands:store",
    "train": Command(
        "obygaze_models.runner.experiments:train",
        {
            "store": STORES,
            "manifest": Option("--manifest"),
            "changes": CHANGES,
            "output": RUN_NAME,
            "n_jobs": JOBS,
        },
    ),
    "run": Command(
        "obygaze_models.runner.experiments:run",
        {
            "stores": STORES,
            "manifest": Option("--manifest"),
            "tasks": Option("--task", shown_default="the tasks of the protocol"),
            "changes": CHANGES,
            "output": RUN_NAME,
            "n_jobs": JOBS,
            "trust": Option("--trust", metavar="FILE.py:NAME"),
        },
    ),
    "report": Command(
        "obygaze_models.report.commands:report",
        {
            "formats": Option("--format", shown_default="html, csv, latex and svg"),
            "output": Option(
                "-o --output",
                metavar="PATH",
                shown_default="report.html for one run, reports.html for several",
            ),
        },
    ),
    "compare": Command(
        "obygaze_models.report.commands:compare",
        {
            "models": Option(
                "--model", shown_default="models of the same name", metavar="NAME"
            ),
            "metric": Option(shown_default="the primary metric of the first run"),
            "output": Option("-o --output", metavar="PATH"),
        },
        then="obygaze_models.report.commands:write_compared",
        check="obygaze_models.report.commands:check_compared",
    ),
    "models": "obygaze_models.zoo.commands:models",
    "view": Command(
        "obygaze.films.page.view:view",
        {
            "scores": Option(metavar="PATH"),
            "output": Option("-o --output", metavar="FOLDER"),
        },
        then="obygaze.films.page.view:FilmPages.opened",
    ),
    "explain": "obygaze.audits.maps.commands:explain",
    "search": Command(
        "obygaze_features.extraction.search:search",
        {
            "text": Option(metavar="WORDS"),
            "like": Option(metavar="CLIP"),
            "top": Option(minimum=1),
            "out": Option("-o --output", metavar="PATH"),
        },
    ),
    "agree": Command(
        "obygaze.audits.agreement:agree",
        {
            "source": Option(is_repeated=True),
            "clips": Option(group=FOR_MARKS),
            "every": Option(metavar="SECONDS", group=FOR_MARKS),
            "column": Option(metavar="COLUMN"),
            "orders": Option("--order", metavar="COLUMN=WORDS"),
            "raters": Option(metavar="COLUMNS", group=FOR_RATINGS),
            "cluster": Option(metavar="COLUMNS", group=FOR_RATINGS),
        },
        then="obygaze.audits.result:Audit.write",
    ),
    "audit": "obygaze.audits.commands:audit",
    "models test": Command(
        "obygaze_models.runner.experiments:test_model",
        {
            "store": Option("--store", metavar="NAME=STORE"),
            "manifest": Option("--manifest"),
            "task": Option(shown_default="the task of the model"),
            "changes": CHANGES,
            "output": RUN_NAME,
        },
    ),
    "manifest project": Command(
        "obygaze.films.labels:project_marks",
        {
            "marks": Option(is_repeated=True),
            "every": Option(metavar="SECONDS"),
            "orders": Option("--order", metavar="COLUMN=WORDS"),
            "rule": Option(metavar="RULE"),
            "name": Option("-o --output", metavar="NAME"),
        },
    ),
    "manifest sample": Command(
        "obygaze.films.sampling:sample_clips",
        {
            "n_clips": Option("-n", metavar="CLIPS", minimum=1),
            "name": Option("-o --output", metavar="NAME"),
            "seed": Option(minimum=0),
        },
    ),
    "manifest import": Command(
        "obygaze.films.formats:import_manifest",
        {
            "sources": Option(is_repeated=True, metavar="SOURCE..."),
            "name": Option("-o --output", metavar="NAME"),
            "format": Option("--as", metavar="NAME"),
            "columns": Option("--map", metavar="TARGET=COLUMN", group=FOR_TABLES),
            "form": Option("--id", metavar="FORM", group=FOR_TABLES),
            "films": Option(group=FOR_TABLES),
            "sheet": Option(metavar="NAME", group=FOR_TABLES),
            "rule": Option(metavar="RULE", group=FOR_TABLES),
            "orders": Option("--order", metavar="COLUMN=WORDS", group=FOR_TABLES),
            "mapping": Option(metavar="PATH", group=FOR_TABLES),
            "write_mapping": Option(metavar="PATH", group=FOR_TABLES),
            "tiers": Option(
                "--tier", metavar="OLD=COLUMN", group=FOR_MARKS, may_be_empty=True
            ),
            "words": Option("--word", metavar="OLD=NEW", may_be_empty=True),
            "coded": Option(metavar="COLUMN", group=FOR_MARKS),
            "splits": Option(metavar="PATH"),
        },
    ),
    "manifest export": Command(
        "obygaze.films.formats:export_manifest",
        {
            "format": Option("--as", metavar="FORMAT"),
            "predictions": Option(metavar="PATH"),
            "into": Option(metavar="PATH"),
            "people": Option("--person", metavar="NAME"),
        },
    ),
    "extract text": Command(
        "obygaze_features.extraction.text:embed_texts",
        {
            "backbone": Option("-b --backbone", metavar="NAME"),
            "prompts": Option("--prompts", metavar="SET"),
            "out": Option("-o --output", is_file=True),
            "weights": Option(metavar="PATH"),
        },
    ),
    "extract words": Command(
        "obygaze_features.extraction.words:extract_words",
        {
            "backbone": Option("-b --backbone", metavar="NAME"),
            "subtitles": Option("--subtitles", metavar="FOLDER|TABLE"),
            "out": Option(
                "-o --output", metavar="STORE", shown_default="MANIFEST.NAME"
            ),
            "weights": Option(metavar="PATH"),
        },
    ),
    "extract captions": Command(
        "obygaze_features.extraction.text:score_captions",
        {
            "out": Option("-o --output", is_file=True),
            "lm": Option("--lm", metavar="MODEL"),
            "sim": Option("--sim", metavar="MODEL"),
        },
    ),
}

# The commands that `obygaze --help` lists under each heading, in the order of work.
HEADINGS = {
    "Start here": ("demo", "doctor", "ls"),
    "Data": ("manifest", "video"),
    "Features": ("backbones", "extract", "store"),
    "Experiments": ("train", "run", "report", "compare", "models"),
    "Look": ("view", "explain", "search"),
    "More": ("agree", "audit"),
}
