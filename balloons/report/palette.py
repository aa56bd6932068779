"""The colours of the chart. In a page each is a CSS variable, so that one drawing serves light and dark.

The stages' colours are Okabe and Ito's, which people with any colour vision tell apart; each stage has its name beside.
"""

STAGES = {"ready": "#009e73", "joining": "#e69f00", "held": "#cc79a7", "booting": "#bcdcf2", "waiting": "#eef0f3"}
PACE, LOAD = "#0072b2", "#d55e00"
PACED, UNPACED, HURT = PACE, LOAD, "#b3261e"
"""Of the picture of both; and where others notice."""
LEVELS = {"yes": "#2e8b57", "hurts": "#d29922", "no": "#b3261e"}
"""The verdict's lights, as on the page."""
INK, FAINT, LINE, PAPER, BAND = "#1f2933", "#5b6770", "#c9d0d6", "#ffffff", "#8d99a3"
WAVES = ("#eef2f6", "#dde4eb")
"""In turn; the number of a wave stands in it."""

VARIABLES = {
    **{colour: f"--{name}" for name, colour in STAGES.items()},
    PACE: "--pace",
    LOAD: "--load",
    HURT: "--hurt",
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
    STAGES["booting"]: "#2c556f",
    STAGES["waiting"]: "#262d34",
    PACE: "#4aa3e0",
    LOAD: "#ff8a3d",
    HURT: "#ff7b72",
    INK: "#e6eaee",
    FAINT: "#a4afb9",
    LINE: "#47525d",
    PAPER: "#171c21",
    BAND: "#8d99a3",
    WAVES[0]: "#242b32",
    WAVES[1]: "#303942",
}
