"""Sheets of word problems, and how many of a sheet's answers are exact.

A sheet is some questions, each a sum or a difference in a sentence, after letters; it is answered by a line for each, with
the working and the result: `B: 17 - 9 = 8`. A line is an exact answer where it is that of the sheet, letter for letter.
The family has two parts, which differ in their words alone: what a base model reads, and what an adapter is trained on.
"""
import json, random, string

NAMES = ('John', 'Henry', 'Edward', 'Richard', 'Romeo', 'Lincoln', 'Achilles', 'Warwick')
THINGS = ('apples', 'books', 'cards', 'eggs', 'cookies', 'flowers', 'marbles', 'stars')
PARTS = {  # sign of the second number, and the sentence
    'base': (('+', '{name} has {first} {things} and buys {second} more.'),
             ('-', '{name} has {first} {things} and sells {second} of them.')),
    'adapter': (('+', 'To {first} {things} of {name} come {second}.'),
                ('-', 'From {first} {things} of {name} go {second}.')),
}


def problem(draw, part, numbers):
    """(question, answer); both numbers lie in 1..most, with a `most` drawn from `numbers`. No result is negative."""
    sign, sentence = draw.choice(PARTS[part])
    most = draw.choice(numbers)
    first, second = (1 + int(most * draw.random()) for _ in range(2))  # faster than randint, and 2^53 is enough
    if sign == '-' and first < second:
        first, second = second, first
    result = first + second if sign == '+' else first - second
    question = sentence.format(name=draw.choice(NAMES), things=draw.choice(THINGS), first=first, second=second)
    return question, f'{first} {sign} {second} = {result}'


def sheet(draw, part, numbers, questions):
    """A record of alpaca."""
    made = [problem(draw, part, numbers) for _ in range(questions)]
    letters = string.ascii_uppercase
    return {'instruction': '\n'.join(f'{letter}: {question}' for letter, (question, _) in zip(letters, made)),
            'output': '\n'.join(f'{letter}: {answer}' for letter, (_, answer) in zip(letters, made))}


def sheets(count, seed, part, numbers, questions, without=()):
    """`count` sheets that differ, none of which asks what one of `without` asks."""
    draw, found = random.Random(seed), {}
    taken = {record['instruction'] for record in without}
    while len(found) < count:
        record = sheet(draw, part, numbers, questions)
        if record['instruction'] not in taken:
            found[record['instruction']] = record
    return list(found.values())


def write(path, records):
    with open(path, 'w', encoding='utf-8') as file:
        file.writelines(json.dumps(record) + '\n' for record in records)


def exact(records, answers):
    """Lines of the answers, one answer a record, that are those of the records."""
    return sum(line == told for record, answer in zip(records, answers, strict=True)
               for line, told in zip(record['output'].split('\n'), answer.split('\n')))
