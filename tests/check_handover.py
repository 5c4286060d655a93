"""A model of how the warps of a backward block hand tiles to each other (src/cuda/orders.cuh), run at random.

    python tests/check_handover.py [trials]

A gate tells only the parity of the uses it has completed, so a warp that falls behind by two uses, or is
ahead by one, takes one use for another. The model has the warps' waits and arrivals as the kernels have them,
and strips, tiles, intervals, live tiles and the order in which warps run as chance will have them. It ends
with an error where a gate opens too early or would not open at all, where a slot or the ring of costs does
not hold what its reader expects, and where nobody can go on.
"""

import random
import sys

WINDOW, NOTICES, READERS, COSTS_KEPT, AHEAD = 4, 4, 2, 4, 2
STOP = (None,)


class Gate:
    def __init__(self):
        self.uses = 0

    def arrive(self):
        self.uses += 1

    def complete(self, use):
        opens = self.uses % 2 != use % 2
        assert not (opens and self.uses <= use), f"open for use {use} after {self.uses}"
        assert opens or self.uses < use + 2, f"closed for use {use} for ever: {self.uses} are complete"
        return opens

    def wait(self, use):
        while not self.complete(use):
            yield


class World:
    """A pair: its strips, and what blocks see of each other."""

    def __init__(self, chance):
        self.chance = chance
        self.strips, self.tiles = chance.randint(1, 6), chance.choice([1, 2, 5, 9, 17, 40, 140])
        self.part_bits, self.snapshots = chance.choice([0, 0, 1, 2, 3, 6]), chance.random() < 0.8
        self.producers = chance.random() < 0.6
        self.swept, self.spent = [self.tiles] * self.strips, [self.tiles] * self.strips
        self.ticket = 0
        self.pace = {
            role: chance.choice([1, 3, 12, 40]) for role in ("sweep", "recompute", "produce", "spend")
        }
        self.dense = chance.choice([0, 0, 0.3])
        kind, band = chance.choice(["diagonal", "some", "all"]), chance.randint(0, 6)
        self.live = {
            (s, t): kind == "all"
            or (kind == "some" and chance.random() < 0.4)
            or (kind == "diagonal" and abs(t - (s + 0.5) * self.tiles / self.strips) <= band)
            for s in range(self.strips)
            for t in range(self.tiles)
        }

    def work(self, role):
        for _ in range(self.chance.randint(1, self.pace[role])):
            yield


class Block:
    def __init__(self, world):
        self.world = world
        self.ordered = [[Gate() for _ in range(WINDOW)] for _ in range(READERS + 1)]
        self.orders = [[STOP] * WINDOW for _ in range(READERS + 1)]
        self.full, self.empty = [Gate() for _ in range(4)], [Gate() for _ in range(4)]
        self.costs_full = [[Gate() for _ in range(COSTS_KEPT)] for _ in range(READERS)]
        self.costs_left = [[Gate() for _ in range(COSTS_KEPT)] for _ in range(READERS)]
        self.told, self.heard = [Gate() for _ in range(NOTICES)], [Gate() for _ in range(NOTICES)]
        self.notices = [STOP] * NOTICES
        self.slot, self.costs = [None] * 4, set()

    @staticmethod
    def slot_of(order, half):
        return order % 2 * 2 + (half ^ order // 2 % 2)

    def leave(self, slot):
        self.slot[slot] = None
        self.empty[slot].arrive()

    def roles(self):
        yield from (Sweep(self).run(), recompute(self, 0), recompute(self, 1), spend(self))
        if self.world.producers:
            yield produce(self)


class Sweep:
    """The first warp, and its ledger."""

    def __init__(self, block):
        self.block, self.world = block, block.world
        self.issued = self.taken = self.given = 0
        self.counts, self.parts = [0] * READERS, [0] * READERS
        self.strip, self.lowest, self.passed = None, 0, False

    def put(self, reader, count, order):
        self.block.orders[reader][count % WINDOW] = order
        if reader < READERS or self.world.producers:
            self.block.ordered[reader][count % WINDOW].arrive()

    def issue(self, tile):
        bits = self.world.part_bits
        reader = (tile >> bits) % READERS
        known = self.world.snapshots and self.lowest >> bits == tile >> bits
        first = tile if known else tile >> bits << bits
        order = (self.strip, tile, first, self.issued, reader, self.parts[reader])
        self.put(reader, self.counts[reader], order)
        self.parts[reader] += tile - first + 1
        self.counts[reader] += 1
        self.put(READERS, self.issued, order)
        self.issued, self.lowest = self.issued + 1, tile

    def obsolete(self, tile):
        oldest = self.block.orders[READERS][self.taken % WINDOW]
        return oldest[0] != self.strip or oldest[1] > tile

    def drop(self):
        for half in range(2):
            slot = self.block.slot_of(self.taken, half)
            yield from self.block.full[slot].wait(self.taken // 2)
            assert self.block.slot[slot] == (self.taken, half)
            self.block.leave(slot)
        self.taken += 1

    def may_issue(self):
        if self.issued < WINDOW or self.taken > self.issued - 2:
            return True
        before = self.issued - WINDOW
        return all(
            self.block.empty[self.block.slot_of(before, half)].complete(before // 2) for half in range(2)
        )

    def foresee(self, tile):
        for wanted in range(min(self.lowest - 1, tile), max(tile - AHEAD, 0) - 1, -1):
            if self.issued - self.taken == WINDOW:
                if not self.obsolete(tile):
                    return
                yield from self.drop()
            while not self.may_issue():
                if wanted < tile:
                    return
                yield
            self.issue(wanted)

    def give(self, notice):
        yield from self.block.heard[self.given % NOTICES].wait(self.given // NOTICES - 1)
        self.block.notices[self.given % NOTICES] = notice
        self.block.told[self.given % NOTICES].arrive()
        self.given, self.passed = self.given + 1, False

    def report(self, tile):
        if self.passed and self.strip > 0:
            yield from self.give((self.strip, tile, None, 0))

    def known(self, tile):
        return self.strip == self.world.strips - 1 or self.world.swept[self.strip + 1] <= max(tile - 1, 0)

    def run_tile(self, tile):
        while self.obsolete(tile):
            yield from self.drop()
        order, self.taken = self.taken, self.taken + 1
        for half in (1, 0):
            slot = self.block.slot_of(order, half)
            yield from self.block.full[slot].wait(order // 2)
            yield from self.world.work("sweep")
            assert self.block.slot[slot] == (order, half)
            yield from self.give((self.strip, tile, order, half))

    def run(self):
        while self.world.ticket < self.world.strips:
            self.strip = self.world.strips - 1 - self.world.ticket
            self.world.ticket += 1
            self.lowest = 1 << 30
            for tile in reversed(range(self.world.tiles)):
                yield
                live = self.world.live[self.strip, tile]
                waits = not self.known(tile)
                if live or waits:
                    yield from self.foresee(tile)
                if waits:
                    yield from self.report(tile + 1)
                    while not self.known(tile):
                        yield
                if live:
                    yield from self.run_tile(tile)
                else:
                    self.passed = True
                self.world.swept[self.strip] = tile
            yield from self.report(0)
        while self.taken < self.issued:
            yield from self.drop()
        for reader in range(READERS):
            self.put(reader, self.counts[reader], STOP)
        if self.world.producers:
            self.put(READERS, self.issued, STOP)
        yield from self.give(STOP)


def follow(block, reader, carry_out):
    """Carries out the orders to a reader."""
    for count in range(sys.maxsize):
        yield from block.ordered[reader][count % WINDOW].wait(count // WINDOW)
        order = block.orders[reader][count % WINDOW]
        if order == STOP:
            return
        yield from carry_out(order)


def recompute(block, reader):
    world = block.world

    def tile_of(order):
        strip, tile, first, number, _, sequence = order
        for part in range(first, tile + 1):
            at = sequence + part - first
            if world.producers:
                yield from block.costs_full[reader][at % COSTS_KEPT].wait(at // COSTS_KEPT)
            for _ in world.work("recompute"):
                assert not world.producers or (strip, part) in block.costs
                yield
            if part == tile:
                for half in range(2):
                    slot = block.slot_of(number, half)
                    yield from block.empty[slot].wait(number // 2 - 1)
                    assert block.slot[slot] is None
                    block.slot[slot] = (number, half)
                    yield from world.work("recompute")
                    block.full[slot].arrive()
            if world.producers:
                block.costs_left[reader][at % COSTS_KEPT].arrive()

    return follow(block, reader, tile_of)


def produce(block):
    last = []  # the latest first

    def costs_of(order):
        strip, tile, first, _, reader, sequence = order
        for part in range(first, tile + 1):
            low = high = part
            keep = True
            for back, (of_strip, of_part, whose, at) in enumerate(last):
                low, high = min(low, of_part), max(high, of_part)
                keep = keep and back < 2 and of_strip == strip and high - low <= 2
                if not keep:
                    yield from block.costs_left[whose][at % COSTS_KEPT].wait(at // COSTS_KEPT)
            at = sequence + part - first
            last[:] = [(strip, part, reader, at), *last[:2]]
            block.costs = {(s, p) for s, p, _, _ in last if s == strip and abs(p - part) <= 2}
            yield from block.world.work("produce")
            block.costs_full[reader][at % COSTS_KEPT].arrive()

    return follow(block, READERS, costs_of)


def spend(block):
    world, held = block.world, []
    for count in range(sys.maxsize):
        yield from block.told[count % NOTICES].wait(count // NOTICES)
        notice = block.notices[count % NOTICES]
        if notice == STOP:
            return
        strip, tile, order, half = notice
        if order is not None:
            yield from world.work("spend")
            slot = block.slot_of(order, half)
            assert block.slot[slot] == (order, half)
            if world.chance.random() < world.dense:
                held.append(slot)
            else:
                block.leave(slot)
            if half == 0:
                while strip < world.strips - 1 and world.spent[strip + 1] > max(tile - 1, 0):
                    yield
                yield from world.work("spend")
                while held:
                    block.leave(held.pop())
        if order is None or half == 0:
            world.spent[strip] = min(world.spent[strip], tile)
        block.heard[count % NOTICES].arrive()


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
    assert not any(world.swept), "tiles were left out"


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
