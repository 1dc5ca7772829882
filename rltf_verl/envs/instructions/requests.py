"""Requests to draw rules for. None is a prompt of IFEval or IFBench."""

from __future__ import annotations

from itertools import product

_FORMS = """\
Explain to a beginner how {} works.
Write a short story about {}.
Write an email to a friend about {}.
Give advice to somebody who wants to learn about {}.
Write a poem about {}.
Describe {} to a child of eight.
Write a newspaper report about {}.
What are the advantages and the disadvantages of {}?
Write a dialogue between two neighbours about {}.
Write an advertisement for {}.
Plan a lesson about {}.
Tell a joke about {} and explain it.
Write a review of a book about {}.
Compare {} today with {} a hundred years ago.
Write a speech about {} for a small audience.
What mistakes do people often make with {}?
Write a diary entry of somebody who spends a day with {}.
Propose three questions for an interview about {}, with answers.
Write a letter of complaint about {}.
Summarize what everybody should know about {}.""".splitlines()
_THINGS = """\
a sourdough starter, a city tram, beekeeping, the tides, a public library, volcanoes, a night train, chess,
a vegetable garden, lighthouses, a school orchestra, solar panels, a weekly market, penguins, map reading,
a repair café, olive oil, snow, an old bicycle, bridges, sign language, a ferry, tea, electric cars,
a museum of clocks, mushrooms, a football club, comets, knitting, a mountain hut, coral reefs, photography,
an escalator, honey, earthquakes, a youth hostel, kites, a fire station, jazz, windmills, a hospital kitchen,
stray cats, ancient Rome, rain barrels, a printing press, marathons, deserts, a puppet theatre, the moon,
recycling, a family recipe, owls, a canal, video games, glass, a village fair, whales, a weather station,
roller skates, compost""".replace("\n", " ").split(", ")

REQUESTS: tuple[str, ...] = tuple(
    form.format(*[thing] * 2) for form, thing in product(_FORMS, _THINGS)
)
