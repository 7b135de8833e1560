// Measures two things in turns, A B A B …, so that other load on the machine affects both alike.
import { type Measured, quantile, seeRounds } from './figure.ts';

export type Measure = () => Promise<number>;

export type Compared = { own: Measured; peer: Measured; ratio: Measured };

export type RoundOrder = { rounds: number; turnsPerRound: number; share?: number };

const ascending = (values: number[]): number[] => values.sort((a, b) => a - b);

/**
 * A round is a number of turns of each; it yields one quantile per side (by default the median) and
 * the ratio of the two. The result is the median and the spread over the rounds.
 */
export async function compare(
  { rounds, turnsPerRound, share = 0.5 }: RoundOrder,
  own: Measure,
  peer: Measure,
): Promise<Compared> {
  const pairs: { own: number; peer: number }[] = [];
  for (let round = 0; round < rounds; round++) {
    const owns: number[] = [];
    const peers: number[] = [];
    for (let turn = 0; turn < turnsPerRound; turn++) {
      // The order alternates, so that neither always benefits from the other's caches.
      if (turn % 2 === 0) owns.push(await own());
      peers.push(await peer());
      if (turn % 2 === 1) owns.push(await own());
    }
    pairs.push({ own: quantile(ascending(owns), share), peer: quantile(ascending(peers), share) });
  }
  return {
    own: seeRounds(pairs.map((pair) => pair.own)),
    peer: seeRounds(pairs.map((pair) => pair.peer)),
    ratio: seeRounds(pairs.map((pair) => pair.own / pair.peer)),
  };
}
