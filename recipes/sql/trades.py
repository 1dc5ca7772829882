"""Sixteen small databases, each of another trade, filled from a number.

A table is `name: column kind; column kind; …`, with `column (words)` where people call it
otherwise. Kinds: `key`; `person` and `thing A, B` (unique names); `of A, B` (one of these; `of
open=OP` where people say "open" and the table "OP"); `1..9` (a number; with a point: an amount);
`date`; `> table` (the key of a row there). `?`: a quarter of them is null.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from typing import Any

from rltf_verl.texts import split_words

SEEN = """
bakery
  customers: customer_id key; name person; city of Leeds, York, Hull, Ripon; joined (joining
      date) date
  products: product_id key; name thing rye loaf, bun, plum cake, bagel, scone, pretzel, tart,
      brioche, roll, wafer; kind of bread, cake, pastry; price 0.50..12.00
  sales: sale_id key; customer_id (customer) > customers; product_id (product) > products;
      quantity 1..9; sold_on (sale date) date; note of gift, urgent, eat in?
library
  members: member_id key; name person; town of Bath, Wells, Frome; born (birth year) 1950..1956
  books: book_id key; title thing Dune, Emma, Ulysses, Kim, Ivanhoe, Dracula, Hamlet, Faust,
      Candide, Walden, Utopia; genre of novel, drama, essay; pages 90..99
  loans: loan_id key; member_id (member) > members; book_id (book) > books; lent_on (loan
      date) date; returned_on (return date) date?; fine 0.00..4.00?
clinic
  doctors: doctor_id key; name person; field of surgery, pediatrics, cardiology; room 1..6
  patients: patient_id key; name person; city of Turin, Pisa, Lucca, Siena; born (birth year)
      1950..1956
  visits: visit_id key; doctor_id (doctor) > doctors; patient_id (patient) > patients;
      visited_on (visit date) date; fee 20.00..90.00?; status of planned=PL, done=DN, missed=MS
school
  teachers: teacher_id key; name person; subject of maths, history, music, biology
  pupils: pupil_id key; name person; class_name (class) of 5a, 5b, 6a; teacher_id (teacher) >
      teachers; entry_date (entry date) date
  marks: mark_id key; pupil_id (pupil) > pupils; points 1..15; given_on (test date) date;
      remark of late, retake, orally?
garage
  owners: owner_id key; name person; district of north, south, harbour
  cars: car_id key; plate thing KA 17, MU 402, LX 8, TR 551, OB 90, QZ 313, HD 77, FF 1, SN
      64, PE 238; make of Fiat, Skoda, Volvo; owner_id (owner) > owners; year_built (year of
      construction) 2001..2008
  repairs: repair_id key; car_id (car) > cars; hours 1..8; cost 40.00..400.00; done_on (repair
      date) date?; part of brake, clutch, tyre?
cinema
  films: film_id key; title thing Alien, Metropolis, Gilda, Heat, Solaris, Ran, Psycho,
      Brazil, Amarcord, Nashville; genre of crime, drama, science; minutes 88..99; country of
      France=FR, Japan=JP, Italy=IT?
  halls: hall_id key; name thing Red, Blue, Gold, Green; seats 60..64
  shows: show_id key; film_id (film) > films; hall_id (hall) > halls; shown_on (show date)
      date; tickets 0..40; price 6.00..14.00?
hotel
  rooms: room_id key; number (room number) 101..140; type (room type) of single, double,
      suite; price 50.00..180.00
  guests: guest_id key; name person; country of Spain=ES, Norway=NO, Chile=CL, Japan=JP
  bookings: booking_id key; guest_id (guest) > guests; room_id (room) > rooms; arrival
      (arrival date) date; nights 1..7; rating 1..5?
farm
  fields: field_id key; name thing Hill, Brook, Long Acre, Mill, Church, Stony, Low, East;
      soil of clay, sand, loam; hectares 2..9
  workers: worker_id key; name person; role of driver, picker, cook; wage 11.00..19.00
  harvests: harvest_id key; field_id (field) > fields; worker_id (worker) > workers; crop of
      rye, beet, maize; tons 1..20; cut_on (harvest date) date; buyer of mill, market, dairy?
gym
  members: member_id key; name person; plan of basic, plus, gold; joined (joining date) date;
      phone of home, mobile?
  trainers: trainer_id key; name person; sport of boxing, yoga, rowing; rate 20.00..45.00
  sessions: session_id key; member_id (member) > members; trainer_id (trainer) > trainers;
      held_on (session date) date; minutes 20..28; mood of good, tired?
airline
  airports: code key; city thing Oslo, Lyon, Porto, Graz, Cork, Split, Malta, Varna; country
      of north, middle, south
  planes: plane_id key; model of A320, B737, ATR72; seats 60..70; built (year of construction)
      1999..2005
  flights: flight_id key; plane_id (plane) > planes; origin (origin airport) > airports; day
      (flight date) date; passengers 20..60; delay 0..50?
shelter
  animals: animal_id key; name thing Rex, Luna, Bella, Max, Coco, Milo, Nala, Oscar, Ruby,
      Toby, Zoe, Fips; species of dog, cat, rabbit; weight 2..12; arrived (arrival date) date;
      chip of yes, no?
  keepers: keeper_id key; name person; shift of early, late, night
  walks: walk_id key; animal_id (animal) > animals; keeper_id (keeper) > keepers; walked_on
      (walk date) date; minutes 10..25; weather of rain, sun, snow?
theatre
  plays: play_id key; title thing Medea, Tartuffe, Macbeth, Faust, Nora, Othello, Electra,
      Volpone; author of Goethe, Ibsen, Moliere?; acts 1..5
  actors: actor_id key; name person; voice of bass, tenor, alto; hired_on (hiring date) date
  parts: part_id key; play_id (play) > plays; actor_id (actor) > actors; lines 5..60; fee
      90.00..200.00?; rank (size) of lead=L, small=S, extra=E
"""
"""Of the training problems, and of half of the test problems."""
UNSEEN = """
vineyard
  growers: grower_id key; name person; valley of Ahr, Wachau, Douro; since (year of entry)
      1980..1987
  wines: wine_id key; label thing Sol, Luna Rossa, Alto, Brisa, Roca, Viento, Nube, Onda,
      Flor; colour of red, white, rose; grower_id (grower) > growers; bottles 100..120
  orders: order_id key; wine_id (wine) > wines; ordered_on (order date) date; boxes 1..12;
      state of open=O, paid=P, sent=S; total 30.00..300.00; remark of fragile, present?
museum
  artists: artist_id key; name person; nation of France=FR, Spain=ES, Austria=AT
  works: work_id key; title thing Dawn, Bridge, Harvest, Storm, Mirror, Ladder, Orchard,
      Window, Ferry, Clock; artist_id (artist) > artists; material of oil, bronze, paper; made_in
      (year of origin) 1890..1896; value 500.00..900.00?
  restorations: restoration_id key; work_id (work) > works; started (starting date) date;
      ended (ending date) date?; hours 4..30; grade of light, heavy
bank
  clients: client_id key; name person; branch of Mitte, West, Nord; born (birth year) 1950..1956
  accounts: account_id key; client_id (client) > clients; kind of savings=SV, current=CU,
      deposit=DP; opened_on (opening date) date; limit_eur (credit limit) 500..510?
  transfers: transfer_id key; account_id (account) > accounts; booked_on (booking date) date;
      amount 5.00..250.00; purpose of rent, wages, tax?; fee 0..3
observatory
  telescopes: telescope_id key; name thing Argus, Gaze, Owl, Lynx, Vega; aperture 20..28; dome
      of east, west
  observers: observer_id key; name person; level of student, staff, guest
  nights: night_id key; telescope_id (telescope) > telescopes; observer_id (observer) >
      observers; observed_on (observation date) date; images 3..40; sky of clear, hazy, cloudy?
"""
"""Of the other half of the test problems."""

FIRST = split_words("Ada Ben Cleo Dan Eva Finn Gus Ida Jan Kim Lea Max Nora Olaf Pia Tom")
LAST = split_words("Berg Cole Diaz Ford Hart King Lund Moss Nash Reed Stone Vega")
NUM_PERSONS, NUM_ROOMS, NUM_EVENTS, SHARE_NULL = 14, 14, 40, 0.25


@dataclass(frozen=True)
class Column:
    """A column, and what people call it."""

    name: str
    label: str
    kind: str
    """`key`, `name`, `word`, `number`, `amount`, `date` or `parent`."""
    values: tuple[str, ...]
    """What is stored; of a number its range; of a parent its table."""
    spoken: tuple[str, ...] = ()
    """What people say in place of `values`."""
    nullable: bool = False

    @property
    def declared(self) -> str:
        """Its line of CREATE TABLE."""
        types = {"key": "INTEGER PRIMARY KEY", "number": "INTEGER", "parent": "INTEGER"}
        return f"{self.name} {types.get(self.kind, 'REAL' if self.kind == 'amount' else 'TEXT')}"


@dataclass(frozen=True)
class Table:
    """A table without its rows."""

    name: str
    columns: tuple[Column, ...]

    @property
    def key(self) -> str:
        """Name of the primary key."""
        return self.columns[0].name

    def of_kind(self, *kinds: str) -> list[Column]:
        """The columns of these kinds."""
        return [column for column in self.columns if column.kind in kinds]

    def column(self, name: str) -> Column | None:
        """The column of this name, in any case of its letters."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)


@cache
def schemas(text: str) -> dict[str, tuple[Table, ...]]:
    """Trade -> its tables, of `SEEN` or `UNSEEN`."""
    found: dict[str, tuple[Table, ...]] = {}
    trade = ""
    for line in text.strip().replace("\n      ", " ").splitlines():
        if line.startswith(" "):
            name, columns = line.strip().split(": ", 1)
            found[trade] += (Table(name, tuple(map(_column, columns.split("; ")))),)
        else:
            trade = line
            found[trade] = ()
    return found


def tables_of(trade: str) -> tuple[Table, ...]:
    """The tables of a trade."""
    return (schemas(SEEN) | schemas(UNSEEN))[trade]


_COLUMN = re.compile(r"(\w+)(?: \(([^)]+)\))? (\S+) ?(.*)")


def _column(text: str) -> Column:
    nullable = text.endswith("?")
    name, words, kind, rest = _COLUMN.findall(text.removesuffix("?"))[0]
    label = words or name.replace("_", " ")
    if ".." in kind:
        low_and_high = tuple(kind.split(".."))
        kind = "amount" if "." in low_and_high[0] else "number"
        return Column(name, label, kind, low_and_high, nullable=nullable)
    values = [value.partition("=") for value in rest.split(", ") if value]
    said, stored = tuple(v[0] for v in values), tuple(v[2] or v[0] for v in values)
    kinds = {"thing": "name", "person": "name", "of": "word", ">": "parent"}
    return Column(name, label, kinds.get(kind, kind), stored, said, nullable)


@cache
def rows_of(trade: str, fill: int) -> dict[str, list[tuple[Any, ...]]]:
    """Table -> its rows, the same for the same number. Numbers tie, and some keys have no event."""
    rng = random.Random(f"{trade} {fill}")
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for table in tables_of(trade):
        names = _names(rng, table)
        keys = range(1, 1 + (len(names) or (NUM_EVENTS if table.of_kind("parent") else NUM_ROOMS)))
        rows[table.name] = [
            tuple(_value(rng, column, key, names, rows) for column in table.columns) for key in keys
        ]
    return rows


def _names(rng: random.Random, table: Table) -> list[str]:
    column = next(iter(table.of_kind("name")), None)
    if column is None:
        return []
    everyone = [f"{first} {last}" for first in FIRST for last in LAST]
    if column.values:
        return rng.sample(column.values, len(column.values))
    return rng.sample(everyone, NUM_PERSONS)


def _value(
    rng: random.Random,
    column: Column,
    key: int,
    names: Sequence[str],
    rows: Mapping[str, Sequence[tuple[Any, ...]]],
) -> Any:
    if column.nullable and rng.random() < SHARE_NULL:
        return None
    if column.kind in ("key", "name"):
        return key if column.kind == "key" else names[key - 1]
    if column.kind == "word":
        return rng.choice(column.values)
    if column.kind == "parent":  # the last ones have no event
        return rng.randint(1, len(rows[column.values[0]]) * 4 // 5)
    if column.kind == "date":
        return str(date(2023, 1, 1) + timedelta(days=rng.randrange(730)))
    low, high = map(float, column.values)
    return (
        rng.randint(int(low), int(high))
        if column.kind == "number"
        else (low + rng.randint(0, int((high - low) * 2)) / 2)
    )


def create_table(table: Table) -> str:
    """Its CREATE TABLE."""
    keys = [
        f"FOREIGN KEY ({column.name}) REFERENCES {column.values[0]}"
        for column in table.of_kind("parent")
    ]
    return f"CREATE TABLE {table.name} ({', '.join([c.declared for c in table.columns] + keys)});"
