#!/usr/bin/env python3
"""Make a set for cag-bench eval out of a seed: no one else's text.

    make_eval_set.py [--words N] [--seed S] [--reworded] DIR

Writes DIR/handbook.md, DIR/sites.md, DIR/equipment.md (about N words together,
default 2600: some 4,000 tokens) and DIR/gold.jsonl: questions with answers and gold
lines, some about things that the text does not hold, some
reworded by templates so that few words are the text's; with --reworded all
that have an answer are, about the same text.  The same arguments give the same
bytes.
"""
import argparse
import json
import os
import random

FIRST = "Ada Bela Cato Dora Enno Fina Goro Hana Ivo Juna Kiro Lena Maro Nila Olin Pera Runa Sito Tala Vero".split()
LAST = "Arlund Bekker Corvo Dalmas Ferrin Grund Holt Ilvar Jasper Kestrel Lorne Marsh Nordin Orwin Pell Quist".split()
PLACE = "Alder Birch Cedar Dune Elm Fern Gale Heath Iris Juniper Kelp Larch Moss North Oak Pine".split()
KIND = "Depot Station Workshop Office Yard Laboratory".split()
THING = "Heron Lynx Osprey Badger Marten Falcon Otter Raven Stoat Ibex".split()
GEAR = "pump drill scanner winch sensor printer compressor lathe".split()
FILLER = [
    "Visitors sign the book at the door and wear their badge in plain sight.",
    "Nothing in this part is to be changed without asking the people who work there.",
    "Complaints are read once a week, and each of them gets a reply.",
    "Doors are kept shut while the machines are running.",
    "What is borrowed is brought back clean and on the agreed day.",
    "The list on the wall says who is on duty, and it is kept up to date.",
]


def person(rng, used):
    while True:
        name = f"{rng.choice(FIRST)} {rng.choice(LAST)}"
        if name not in used:
            used.add(name)
            return name


def site_facts(rng, used):
    """(name, [(sentence, question, reworded question, answer)])"""
    name = f"{rng.choice(PLACE)} {rng.choice(KIND)}"
    while name in used:
        name = f"{rng.choice(PLACE)} {rng.choice(KIND)} {rng.randint(2, 99)}"
    used.add(name)
    head, year = person(rng, used), rng.randint(1931, 2019)
    staff, floor = rng.randint(12, 480), rng.randint(3, 97) * 100
    opens, code = f"{rng.randint(6, 10)}:{rng.choice(['15', '30', '45'])}", rng.randint(1000, 9999)
    return name, [
        (f"The head of the {name} is {head}.", f"Who is the head of the {name}?",
         f"Which person is in charge at {name}?", head),
        (f"The {name} was founded in {year}.", f"When was the {name} founded?",
         f"Since what year has {name} existed?", str(year)),
        (f"It employs {staff} people.", f"How many people does the {name} employ?",
         f"What is the size of the crew of {name}?", str(staff)),
        (f"Its floor area is {floor:,} square metres.", f"What is the floor area of the {name}?",
         f"How large is the building of {name}?", str(floor)),
        (f"The gate of the {name} opens at {opens}.", f"At what time does the gate of the {name} open?",
         f"How early can one get into {name}?", opens),
        (f"The emergency number of the {name} is {code}.", f"What is the emergency number of the {name}?",
         f"Which digits does one dial when there is a fire at {name}?", str(code)),
    ]


def gear_facts(rng, used):
    name = f"{rng.choice(THING)} {rng.choice(GEAR)}"
    while name in used:
        name = f"{rng.choice(THING)} {rng.choice(GEAR)} {rng.randint(2, 99)}"
    used.add(name)
    weight, price, volts = rng.randint(11, 890), rng.randint(2, 99) * 50, rng.choice([12, 24, 48, 110, 230, 400])
    keeper, months = person(rng, used), rng.randint(2, 36)
    return name, [
        (f"The {name} weighs {weight} kg.", f"How much does the {name} weigh?",
         f"Is the {name} heavy, and what do the scales say?", str(weight)),
        (f"A new {name} costs {price:,} euros.", f"What does a new {name} cost?",
         f"How much money has to be paid for another {name}?", str(price)),
        (f"The {name} runs on {volts} volts.", f"On how many volts does the {name} run?",
         f"Which mains does one plug the {name} into?", str(volts)),
        (f"The {name} is serviced every {months} months by {keeper}.", f"Who services the {name}?",
         f"Whose job is the upkeep of the {name}?", keeper),
    ]


def missing(kind, name):
    """A question on the topic that nothing in the text answers."""
    return {"site": [f"Which architect designed the {name}?", f"What colour is the roof of the {name}?",
                     f"How many lorries belong to the {name}?"],
            "gear": [f"Which company made the {name}?", f"What is the serial number of the {name}?",
                     f"How loud is the {name}?"]}[kind]


class Document:
    def __init__(self, name, title):
        self.name, self.lines, self.n_word = name, [f"# {title}", ""], 0

    def add(self, line):
        self.lines.append(line)
        self.n_word += len(line.split())
        return len(self.lines)


def section(rng, doc, kind, name, facts, gold, all_reworded):
    doc.add(f"## {name}")
    doc.add("")
    for sentence, question, reworded, answer in facts:
        line = doc.add(sentence)
        row = {"question": question, "answers": [answer], "answerable": True,
               "lines": [line, line], "source": doc.name}
        pick = rng.random()
        if pick < (0.4 if all_reworded else 0.1):
            gold.append(dict(row, question=reworded, reworded=True))
        elif pick < 0.4:
            gold.append(row)
        if rng.random() < 0.3:
            doc.add(rng.choice(FILLER))
    doc.add("")
    if rng.random() < 0.8:
        gold.append({"question": rng.choice(missing(kind, name)), "answers": [], "answerable": False})


def make(words, seed, all_reworded):
    rng = random.Random(seed)
    docs = [Document("equipment.md", "Equipment"), Document("handbook.md", "Handbook"),
            Document("sites.md", "Sites")]
    used, gold = set(), []
    while sum(d.n_word for d in docs) < words:
        kind = rng.choice(["site", "gear"])
        name, facts = (site_facts if kind == "site" else gear_facts)(rng, used)
        doc = docs[1] if rng.random() < 0.3 else docs[2 if kind == "site" else 0]
        section(rng, doc, kind, name, facts, gold, all_reworded)
    for i, row in enumerate(gold, 1):
        row["id"] = f"g{i:03}"
    return docs, gold


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--words", type=int, default=2600)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--reworded", action="store_true")
    p.add_argument("dir")
    a = p.parse_args()
    docs, gold = make(a.words, a.seed, a.reworded)
    os.makedirs(a.dir, exist_ok=True)
    for d in docs:
        with open(os.path.join(a.dir, d.name), "w", encoding="utf-8") as f:
            f.write("\n".join(d.lines) + "\n")
    with open(os.path.join(a.dir, "gold.jsonl"), "w", encoding="utf-8") as f:
        for row in gold:
            f.write(json.dumps(row) + "\n")


main()
