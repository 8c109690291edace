"""report_html.py - HTML as elements, which the standard library writes: whatever text they hold, it stays text."""
import xml.etree.ElementTree as ElementTree


def element(tag, attributes=None, *children):
    """Children are elements, texts, and lists of them; None is left out."""
    made = ElementTree.Element(tag, {key: str(value) for key, value in (attributes or {}).items() if value is not None})
    append(made, children)
    return made


def append(parent, children):
    for child in children:
        if isinstance(child, (list, tuple)):
            append(parent, child)
        elif isinstance(child, ElementTree.Element):
            parent.append(child)
        elif child is not None:
            add_text(parent, str(child))


def add_text(parent, words):
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + words
    else:
        parent.text = (parent.text or "") + words


def table(caption, heads, rows, numeric=(), attributes=None):
    """A table in a box of its own that scrolls where the page is narrow. `numeric`: columns set flush right. The first
    column heads its row."""
    side = [{"class": "number"} if place in numeric else {} for place in range(len(heads))]
    head = [element("th", {"scope": "col", **side[place]}, words) for place, words in enumerate(heads)]
    body = []
    for row in rows:
        cells = [
            element("th" if place == 0 else "td", {**({"scope": "row"} if place == 0 else {}), **side[place]}, cell)
            for place, cell in enumerate(row)
        ]
        body.append(element("tr", None, cells))
    made = element(
        "table",
        attributes,
        element("caption", None, caption),
        element("thead", None, element("tr", None, head)),
        element("tbody", None, body),
    )
    return element("div", {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": caption}, made)


def items(sentences):
    return element("ul", None, [element("li", None, sentence) for sentence in sentences])


def page(title, style, body, language="en"):
    """The whole file. Nothing in it may be fetched, and no script runs."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    head = element(
        "head",
        None,
        element("meta", {"charset": "utf-8"}),
        element("meta", {"http-equiv": "Content-Security-Policy", "content": policy}),
        element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", {"name": "color-scheme", "content": "light dark"}),
        element("meta", {"name": "generator", "content": "treering report"}),
        element("link", {"rel": "icon", "href": "data:,"}),  # no browser asks a server for one
        element("title", None, title),
        element("style", None, style),
    )
    root = element("html", {"lang": language}, head, body)
    return "<!DOCTYPE html>\n" + ElementTree.tostring(root, encoding="unicode", method="html") + "\n"
