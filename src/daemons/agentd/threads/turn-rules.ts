// Decides whether an agent may take the next turn with another agent in a thread. Pure.
//
// A turn: one agent writes to another, or delegates to it, after the other wrote or answered to it,
// or as the first. Turns count per thread, since a person last wrote there.
import type { TurnLimit } from '../../../wire/agentd.ts';
import { isSameText } from './similar-text.ts';

/** 0: no limit. */
export type ThreadLimits = { turnsMax: number; repeatsMax: number; costMicrousdMax: number };

export type Exchange = {
  turns: number;
  /** The person who ended it. */
  stoppedBy: string | null;
  /** The messages between the two since a person last wrote, oldest first. */
  history: readonly { from: string; text: string }[];
  /** The cost of the thread since then; undefined where it is not counted. */
  costMicrousd: number | undefined;
};

export type TurnCheck = { turn: number; isNew: boolean } | { refused: TurnLimit };

export function checkTurn(
  { turns, stoppedBy, history, costMicrousd = 0 }: Exchange,
  next: { from: string; text: string },
  limits: ThreadLimits,
): TurnCheck {
  if (history.at(-1)?.from === next.from) return { turn: turns, isNew: false };
  if (stoppedBy !== null) return { refused: 'stopped' };
  if (isAbove(turns + 1, limits.turnsMax)) return { refused: 'turns' };
  if (isAbove(countRepeats([...history, next]), limits.repeatsMax)) return { refused: 'repeats' };
  if (limits.costMicrousdMax > 0 && costMicrousd >= limits.costMicrousdMax)
    return { refused: 'cost' };
  return { turn: turns + 1, isNew: true };
}

const isAbove = (value: number, max: number): boolean => max > 0 && value > max;

/** Returns how many turns in a row, up to the last, say only what one of the two said before. */
export function countRepeats(history: readonly { from: string; text: string }[]): number {
  const last = history.filter(({ from }, i) => history[i + 1]?.from !== from);
  let count = 0;
  for (let i = last.length - 1; i > 0; i--) {
    const { text } = last[i]!;
    if (!last.slice(0, i).some((earlier) => isSameText(earlier.text, text))) break;
    count++;
  }
  return count;
}
