"""report_svg.py - a matplotlib Figure as SVG: a static file for papers, or elements to stand inside a page."""
import io
import re
import warnings
import xml.etree.ElementTree as ElementTree

import matplotlib
import report_figures as figures

SVG = "{http://www.w3.org/2000/svg}"
XLINK = "{http://www.w3.org/1999/xlink}href"
# a figure's placeholder -> the page's custom property (report.css)
PROPERTIES = {
    figures.INK: "ink",
    figures.MUTED: "muted",
    figures.GRID: "grid",
    figures.PAPER: "paper",
    figures.BAND: "band",
}
PROPERTIES.update({colour: f"series-{place}" for place, colour in enumerate(figures.COLOURS)})
_placeholder = re.compile("|".join(PROPERTIES))
_reference = re.compile(r"url\(#([^)]*)\)")


def render(figure, fonttype):
    """The SVG file's text. fonttype "path": looks the same everywhere; "none": text stays text."""
    stream = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": fonttype}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # glyphs that the font lacks
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": "Treering"})
    return stream.getvalue()


def titles_of(figure):
    """id of a line's group -> what to tell of each of its points"""
    lines = (line for axes in figure.axes for line in axes.lines)
    return {line.get_gid(): line.treering_titles for line in lines if line.get_gid()}


def inline(figure, prefix, label):
    """An <svg> element whose ids begin with `prefix`, so that many can stand in one page."""
    root = ElementTree.fromstring(render(figure, "none"))
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{SVG}style", f"{SVG}metadata") or not isinstance(child.tag, str):
                parent.remove(child)
    add_titles(root, titles_of(figure))
    for element in root.iter():
        rewrite(element, prefix)
    width, height = root.get("viewBox").split()[2:]
    root.attrib = {
        "viewBox": root.get("viewBox"),
        "role": "img",
        "aria-label": label,
        "class": "drawing",
        "style": f"max-width:{float(width) * 1.12:.0f}pt;aspect-ratio:{width}/{height}",
    }
    return root


def add_titles(root, titles):
    for group in root.iter(f"{SVG}g"):
        for mark, words in zip(group.iter(f"{SVG}use"), titles.get(group.get("id"), ())):
            title = ElementTree.SubElement(mark, f"{SVG}title")
            title.text = words


def rewrite(element, prefix):
    """Out of the namespace, as HTML has it; ids made the figure's own; colours made the page's."""
    element.tag = element.tag.rsplit("}", 1)[-1]
    attributes = {}
    for key, value in element.attrib.items():
        if key == XLINK:
            key, value = "href", f"#{prefix}{value[1:]}" if value.startswith("#") else value
        elif key == "id":
            value = prefix + re.sub(r"\W", "-", value)
        else:
            value = _reference.sub(rf"url(#{prefix}\1)", value)
        if key in ("style", "fill", "stroke"):
            value = _placeholder.sub(lambda match: f"var(--{PROPERTIES[match.group()]})", value)
        attributes[key] = value
    element.attrib = attributes


def write(path, figure):
    """A static file, text as outlines."""
    path.write_text(render(figure, "path"), encoding="utf-8")
