"""The look of diagrams: one meaning a colour, fonts with Chinese glyphs, light and dark."""

from recollect.report.drawing.colour import resolve

ROLES = {  # one meaning a colour
    "plain": "soft",
    "input": "good",  # what comes in at this step, and what asks: x, q
    "state": "series-0",  # what is kept: h, c, k, v, W in test-time training
    "output": "series-1",  # what is said: y, o, a forecast
    "gate": "series-3",  # numbers between 0 and 1 that weigh: gates, attention weights, masks
    "gradient": "bad",  # what goes back
    "weight": "series-4",  # what training has learnt
}
STYLE = """\
text{font:17px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","PingFang SC","Microsoft YaHei",\
"Noto Sans CJK SC",sans-serif}
.m{font:italic 1.12em "STIX Two Text","Cambria Math",Cambria,"Times New Roman","Noto Serif",serif}
.n{font-style:normal}
.line{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round}
.dashed{stroke-dasharray:6 4}
.thin{stroke-width:1.2}
.wide{stroke-width:4.5}
.full{fill:currentColor}
.box{fill:currentColor;fill-opacity:.12;stroke:currentColor;stroke-width:1.6}
.bold{font-weight:600}
"""
COLOURED = """\
text{fill:var(--ink)}
.soft{fill:var(--soft)}
.paper{fill:var(--paper)}
.frame{fill:var(--panel);stroke:var(--rule);stroke-width:1.2}
""" + "".join(f".{role}{{color:var(--{colour})}}\n" for role, colour in ROLES.items())


def sheet() -> str:
    """The stylesheet: light, and dark for a reader who has chosen that."""
    dark = f"@media(prefers-color-scheme:dark){{\n{resolve(COLOURED, 'dark')}}}\n"
    return f"<style>\n{STYLE}{resolve(COLOURED, 'light')}{dark}</style>"
