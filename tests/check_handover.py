"""A model of how the warps of a backward block hand tiles to each other, run at random.

What it models is in src/cuda/pipeline/backward_pipeline.cuh.

    python tests/check_handover.py [trials]

A barrier tells only the parity of the uses it has completed, so a warp that falls behind by two uses, or is
ahead by one, takes one use for another. The model has the warps' waits and arrivals as the kernels have them,
and strips, bands, intervals and the order in which warps run as chance will have them: bands that are known
beforehand, and such as begin and end with what the strip before leaves. It ends with an error where a barrier
opens too early or would not open at all, where a slot, a snapshot or the ring of costs does not hold what its
reader expects, where strips add to grad_y out of order, and where nobody can go on.
"""

import random
import re
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "src/cuda"


def constant(source, name):
    """The kernels' own number, so that the model is of the code that there is."""
    return int(re.search(rf"constexpr int {name} = (\d+);", (SOURCES / source).read_text())[1])


BANDS, READERS, COSTS_KEPT, LEAD, END_SLOTS = (
    constant("pipeline/backward_pipeline.cuh", name)
    for name in ("band_slots", "recomputers", "parts_kept", "lead", "end_slots")
)
HALVES = constant("args.h", "halves")


class Barrier:
    def __init__(self, parties=1):
        self.parties, self.arrived = parties, 0

    def arrive(self):
        self.arrived += 1

    def complete(self, use):
        uses = self.arrived // self.parties
        opens = uses % 2 != use % 2
        assert not (opens and uses <= use), f"open for use {use} after {uses}"
        assert opens or uses < use + 2, f"closed for use {use} for ever: {uses} are complete"
        return opens

    def wait(self, use):
        while not self.complete(use):
            yield


@dataclass
class Band:
    strip: int  # in the order in which they are taken up
    first: int
    last: int | None
    number: int
    open: bool


class World:
    """A pair: its strips, and what blocks see of each other. Tiles are counted as their half meets them."""

    def __init__(self, chance):
        self.chance = chance
        self.strips, tiles = chance.randint(1, 9), chance.choice([1, 2, 5, 9, 17, 40, 140])
        self.full_sweeps = chance.random() < 0.3
        self.part_bits, self.snapshots = chance.choice([0, 0, 1, 2, 3, 6]), chance.random() < 0.8
        self.producers, self.dense = chance.random() < 0.6, chance.choice([0, 0, 0.3])
        self.pace = {
            role: chance.choice([1, 3, 12, 40]) for role in ("sweep", "recompute", "produce", "consume")
        }
        self.bands = [None] * self.strips
        overlap = chance.choice([0, 1, 3, tiles])
        for half in range(min(HALVES, self.strips)):
            orders = list(range(half, self.strips, HALVES))
            if not self.full_sweeps:
                orders.reverse()  # from where paths begin
            cuts = sorted(chance.randrange(tiles) for _ in orders[1:])
            for order, first, last in zip(orders, [0, *cuts], [*cuts, tiles - 1], strict=True):
                self.bands[order] = (max(first - overlap, 0), min(last + overlap, tiles - 1))
        self.swept = [tiles] * self.strips  # tiles from this one on
        self.over = [False] * self.strips
        self.ticket, self.done, self.announced = 0, [None] * self.strips, chance.choice([0, 1, 3])
        self.complete = [tiles + 1] * self.strips  # from this tile on
        self.added = []

    def before(self, order):
        """The strip that E comes from, if it comes from one that is swept, too."""
        return order - HALVES if not self.full_sweeps and order >= HALVES else None

    def leads_on(self, order):
        return not self.full_sweeps and order + HALVES < self.strips

    def work(self, role):
        for _ in range(self.chance.randint(1, self.pace[role])):
            yield


class Block:
    def __init__(self, world):
        self.world = world
        others = READERS + 1 + world.producers
        self.told, self.heard = [Barrier() for _ in range(BANDS)], [Barrier(others) for _ in range(BANDS)]
        self.bands, self.begins = [None] * BANDS, [None] * BANDS
        self.begun, self.end_known = [Barrier() for _ in range(BANDS)], [Barrier() for _ in range(END_SLOTS)]
        self.firsts = [None] * END_SLOTS
        self.full, self.swept, self.empty = ([Barrier() for _ in range(4)] for _ in range(3))
        self.reached = [Barrier() for _ in range(READERS)]
        self.costs_full = [[Barrier() for _ in range(COSTS_KEPT)] for _ in range(READERS)]
        self.costs_left = [[Barrier() for _ in range(COSTS_KEPT)] for _ in range(READERS)]
        self.slot, self.costs, self.snapshot = [None] * 4, set(), {}

    @staticmethod
    def slot_of(number, half):
        return number % 2 * 2 + (half ^ number // 2 % 2)

    def leave(self, slot):
        self.slot[slot] = None
        self.empty[slot].arrive()

    def roles(self):
        yield from (sweep(self), recompute(self, 0), recompute(self, 1), consume(self))
        if self.world.producers:
            yield produce(self)

    def first_part(self, band, tile):
        bits = self.world.part_bits
        known = self.world.snapshots and tile < band.last and (tile + 1) >> bits == tile >> bits
        return tile if known else tile >> bits << bits


def sweep(block):
    world = block.world

    def next_band(count, number):
        band = None
        if world.ticket < world.strips:
            order = world.ticket
            band = Band(order, 0, None, number, world.leads_on(order))
            world.ticket += 1
        yield from block.heard[count % BANDS].wait(count // BANDS - 1)
        block.bands[count % BANDS] = band
        block.told[count % BANDS].arrive()
        return band

    def begin_band(band, count, may_wait):
        if band is None or band.last is not None:
            return
        first, last = world.bands[band.strip]
        before = world.before(band.strip)
        if before is not None:
            while not (world.swept[before] <= last + world.announced or world.over[before]):
                if not may_wait:
                    return
                yield
        band.last = last
        if world.full_sweeps:
            band.first = first
        block.begins[count % BANDS] = (band.first, band.last)
        block.begun[count % BANDS].arrive()

    count = 0
    band = yield from next_band(count, 0)
    while band:
        yield from begin_band(band, count, True)
        before, announced, tile = world.before(band.strip), False, band.last
        while tile >= band.first:
            of_tile = band.number + band.last - tile
            if tile <= min(band.first + 1, band.last):
                if not announced:
                    following = yield from next_band(count + 1, of_tile + tile - band.first + 1)
                announced = True
                yield from begin_band(following, count + 1, False)
            while before is not None and not (world.swept[before] <= tile - 1 or world.over[before]):
                yield
            for half in (1, 0):
                slot = block.slot_of(of_tile, half)
                yield from block.full[slot].wait(of_tile // 2)
                yield from world.work("sweep")
                assert block.slot[slot] == (of_tile, half)
                block.swept[slot].arrive()
            world.swept[band.strip] = tile
            leaves = before is not None and not world.over[before]  # maybe more is to come
            if band.open and not world.over[band.strip] and tile <= world.bands[band.strip][0] and not leaves:
                world.over[band.strip] = True
                band.first = max(tile - (LEAD - 1), 0)
            block.firsts[of_tile % END_SLOTS] = band.first
            block.end_known[of_tile % END_SLOTS].arrive()
            tile -= 1
        world.over[band.strip] = True
        world.done[band.strip] = (band.first, band.last)
        band, count = following, count + 1


def bands(block):
    """Each band and the tiles of it, as the other warps meet them."""
    for count in range(sys.maxsize):
        yield from block.told[count % BANDS].wait(count // BANDS)
        band = block.bands[count % BANDS]
        if band is None:
            return
        yield from block.begun[count % BANDS].wait(count // BANDS)
        band = Band(band.strip, *block.begins[count % BANDS], band.number, band.open)
        block.heard[count % BANDS].arrive()
        yield band


def follow(block, carry_out, finish=None):
    for band in bands(block):
        if not isinstance(band, Band):
            yield
            continue
        tile = band.last
        while True:
            number = band.number + band.last - tile
            at = number - LEAD
            if tile >= band.first and at >= 0:
                yield from block.end_known[at % END_SLOTS].wait(at // END_SLOTS)
                if band.open and at >= band.number:
                    band.first = block.firsts[at % END_SLOTS]
            if tile < band.first:
                break
            yield from carry_out(band, tile, number)
            tile -= 1
        if finish:
            finish(band)


def recompute(block, reader):
    world, sequence = block.world, 0

    def reach(number):
        if number >= 0:
            yield from block.reached[number % READERS].wait(number // READERS)

    def run(band, tile, number):
        nonlocal sequence
        if number % READERS != reader:
            return
        begin, bits = block.first_part(band, tile), world.part_bits
        follows = begin >> bits << bits != begin
        if follows:
            yield from reach(number - 1)
            assert block.snapshot[band.strip, begin - (begin >> bits << bits)] == begin
        for part in range(begin, tile + 1):
            if part > begin and world.snapshots:
                block.snapshot[band.strip, part - (part >> bits << bits)] = part
            if world.producers:
                yield from block.costs_full[reader][sequence % COSTS_KEPT].wait(sequence // COSTS_KEPT)
            if part == tile:
                if not follows:
                    yield from reach(number - 1)
                block.reached[reader].arrive()
            for _ in world.work("recompute"):
                assert not world.producers or (band.strip, part) in block.costs
                yield
            for half in range(2) if part == tile else ():
                slot = block.slot_of(number, half)
                yield from block.empty[slot].wait(number // 2 - 1)
                assert block.slot[slot] is None
                block.slot[slot] = (number, half)
                yield from world.work("recompute")
                block.full[slot].arrive()
            if world.producers:
                block.costs_left[reader][sequence % COSTS_KEPT].arrive()
            sequence += 1

    return follow(block, run)


def produce(block):
    last, sequence = [], [0] * READERS  # of the last parts the latest first

    def supply(band, tile, number):
        reader = number % READERS
        for part in range(block.first_part(band, tile), tile + 1):
            low = high = part
            keep = True
            for back, (of_strip, of_part, whose, at) in enumerate(last):
                low, high = min(low, of_part), max(high, of_part)
                keep = keep and back < 2 and of_strip == band.strip and high - low <= 2
                if not keep:
                    yield from block.costs_left[whose][at % COSTS_KEPT].wait(at // COSTS_KEPT)
            at = sequence[reader]
            sequence[reader] += 1
            last[:] = [(band.strip, part, reader, at), *last[:2]]
            block.costs = {(s, p) for s, p, _, _ in last if s == band.strip and abs(p - part) <= 2}
            yield from block.world.work("produce")
            block.costs_full[reader][at % COSTS_KEPT].arrive()

    return follow(block, supply)


def consume(block):
    world, held = block.world, []

    def take(band, tile, number):
        if tile == band.last:
            world.complete[band.strip] = tile + 1
        for half in (1, 0):
            slot = block.slot_of(number, half)
            yield from block.swept[slot].wait(number // 2)
            yield from world.work("consume")
            assert block.slot[slot] == (number, half)
            if world.chance.random() < world.dense:
                held.append(slot)
            else:
                block.leave(slot)
        while any(
            column > max(tile - 1, 0) for column in world.complete[band.strip % HALVES : band.strip : HALVES]
        ):
            yield
        world.added.append((band.strip, tile))
        yield from world.work("consume")
        while held:
            block.leave(held.pop())
        world.complete[band.strip] = tile

    def finish(band):
        world.complete[band.strip] = 0

    return follow(block, take, finish)


def trial(seed):
    chance = random.Random(seed)
    world = World(chance)
    running = [role for _ in range(chance.randint(1, world.strips)) for role in Block(world).roles()]
    for _ in range(1_000_000):
        if not running:
            break
        role = chance.choice(running)
        try:
            for _ in range(chance.choice([1, 1, 1, 5, 30])):
                next(role)
        except StopIteration:
            running.remove(role)
    assert not running, "nobody can go on"
    tiles = [(strip, t) for strip, (first, last) in enumerate(world.done) for t in range(first, last + 1)]
    assert sorted(world.added) == tiles, "tiles were left out"
    for strip, (first, last) in enumerate(world.done):
        assert first <= world.bands[strip][0], "a band ended too early"
        assert last >= world.bands[strip][1], "a band began too late"
    for at, (strip, tile) in enumerate(world.added):
        before = [t for s, t in world.added[at:] if s < strip and (strip - s) % HALVES == 0]
        assert all(t < tile - 1 for t in before), "a strip added before one that comes before it"


def main():
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for seed in range(trials):
        try:
            trial(seed)
        except AssertionError as error:
            sys.exit(f"trial {seed}: {error}")
    print(f"{trials} trials")


if __name__ == "__main__":
    main()
