"""The colours of the chart. In a page each is a CSS variable, so that one drawing serves light and dark.

The stages' colours are Okabe and Ito's, which people with any colour vision tell apart; each stage has its name beside.
"""

STAGES = {"ready": "#009e73", "joining": "#e69f00", "held": "#cc79a7", "booting": "#56b4e9", "waiting": "#dfe3e8"}
PACE, LOAD = "#0072b2", "#d55e00"
INK, FAINT, LINE, PAPER, BAND = "#1f2933", "#5b6770", "#c9d0d6", "#ffffff", "#8d99a3"
WAVES = ("#eef2f6", "#dde4eb")
"""In turn; the number of a wave stands in it."""

VARIABLES = {
    **{colour: f"--{name}" for name, colour in STAGES.items()},
    PACE: "--pace",
    LOAD: "--load",
    INK: "--ink",
    FAINT: "--faint",
    LINE: "--line",
    PAPER: "--paper",
    BAND: "--band",
    WAVES[0]: "--wave-a",
    WAVES[1]: "--wave-b",
}
"""Colour of the drawing -> variable of the page."""
DARK = {
    STAGES["ready"]: "#00b386",
    STAGES["joining"]: "#f0b429",
    STAGES["held"]: "#d98cb8",
    STAGES["booting"]: "#4aa3d8",
    STAGES["waiting"]: "#39424c",
    PACE: "#4aa3e0",
    LOAD: "#ff8a3d",
    INK: "#e6eaee",
    FAINT: "#a4afb9",
    LINE: "#47525d",
    PAPER: "#171c21",
    BAND: "#8d99a3",
    WAVES[0]: "#242b32",
    WAVES[1]: "#303942",
}
