"""Requests to draw rules for. None is a prompt of IFEval or IFBench."""

from __future__ import annotations

from itertools import product

_FORMS = """\
Explain to a beginner how {0} works.
Write a short story about {0}.
Write an email to a friend about {0}.
Give advice to somebody who wants to learn about {0}.
Write a poem about {0}.
Describe {0} to a child of eight.
Write a newspaper report about {0}.
What are the advantages and the disadvantages of {0}?
Write a dialogue between two neighbours about {0}.
Write an advertisement for {0}.
Plan a lesson about {0}.
Tell a joke about {0} and explain it.
Write a review of a book about {0}.
Compare {0} today with {0} a hundred years ago.
Write a speech about {0} for a small audience.
What mistakes do people often make with {0}?
Write a diary entry of somebody who spends a day with {0}.
Propose three questions for an interview about {0}, with answers.
Write a letter of complaint about {0}.
Summarize what everybody should know about {0}.""".splitlines()
_THINGS = """\
a sourdough starter, a city tram, beekeeping, the tides, a public library, volcanoes, a night train
chess, a vegetable garden, lighthouses, a school orchestra, solar panels, a weekly market, penguins
map reading, a repair café, olive oil, snow, an old bicycle, bridges, sign language, a ferry, tea
electric cars, a museum of clocks, mushrooms, a football club, comets, knitting, a mountain hut
coral reefs, photography, an escalator, honey, earthquakes, a youth hostel, kites, a fire station
jazz, windmills, a hospital kitchen, stray cats, ancient Rome, rain barrels, a printing press
marathons, deserts, a puppet theatre, the moon, recycling, a family recipe, owls, a canal, glass
video games, a village fair, whales, a weather station, roller skates, compost"""

REQUESTS: tuple[str, ...] = tuple(
    form.format(thing) for form, thing in product(_FORMS, _THINGS.replace("\n", ", ").split(", "))
)
