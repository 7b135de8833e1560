// Two things measured in turns, A B A B …, so that whatever else the machine does meets both alike.
import { type Measured, quantile, seeRounds } from './figure.ts';

export type Measure = () => Promise<number>;

export type Compared = { own: Measured; peer: Measured; ratio: Measured };

export type RoundOrder = { rounds: number; turnsPerRound: number; share?: number };

const ascending = (values: number[]): number[] => values.sort((a, b) => a - b);

/**
 * A round is some turns of each; it gives one quantile per side (the median unless said
 * otherwise) and the ratio of the two. What is told of the rounds is their median and how far
 * apart they were.
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
      // Who goes first changes, so that neither always finds what the other left in the caches.
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
