# SPDX-License-Identifier: Apache-2.0
"""The site of these pages: `./dev docs` builds it into build/docs/html, warnings as errors. Doxygen reads the comments of the
public headers first; breathe makes reference.md of them. generate.py makes pages of the command's help and of sources."""
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
import generate  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
XML = ROOT / "build/docs/xml"

project = "IronCL"
copyright = "the IronCL maintainers, Apache-2.0"
version = release = re.search(r"project\(ironcl VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
extensions = ["myst_parser", "breathe", "sphinxcontrib.mermaid"]
exclude_patterns = []
html_theme = "furo"
html_title = f"IronCL {version}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
mermaid_height = "auto"
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
breathe_projects = {"ironcl": str(XML)}
breathe_default_project = "ironcl"
breathe_domain_by_extension = {"h": "c", "hpp": "cpp"}
primary_domain = "cpp"
highlight_language = "none"
# Links to sources, which tests/documents looks for; `typedef struct x {...} x`, which Doxygen lists twice.
suppress_warnings = ["myst.xref_missing", "duplicate_declaration.c", "duplicate_declaration.cpp"]

XML.parent.mkdir(parents=True, exist_ok=True)
subprocess.run(["doxygen", "-"], check=True, cwd=ROOT, text=True, input=rf"""
QUIET = YES
INPUT = host/include/ironcl
FILE_PATTERNS = *.h *.hpp
OUTPUT_DIRECTORY = {XML.parent}
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_OUTPUT = xml
EXTRACT_ALL = YES
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = IRONCL_API= IRONCL_EXPORT= __cplusplus
WARN_IF_UNDOCUMENTED = NO
WARN_IF_DOC_ERROR = NO
JAVADOC_AUTOBRIEF = YES
INPUT_FILTER = "sed -E '/SPDX/!s#^( *)/[*]([^*=])#\1/**\2#; s#([^ ]) +/[*]([^*])#\1 /**<\2#'"
""")

generate.generate(os.environ.get("IRONCL", ROOT / "build/release/bin/ironcl"))


def setup(app):
    """Leads links to pages outside of docs/ to what generate.py makes of them."""
    def lead(app, name, source):
        for outside, inside in (("../plugins/skeleton/README.md", "/generated/skeleton.md"), ("../README.md", "/index.md")):
            source[0] = source[0].replace(f"]({outside}", f"]({inside}")

    app.connect("source-read", lead)
