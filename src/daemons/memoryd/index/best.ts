// Picks the best of many scores without sorting all of them.

const STEPS = 1_024;

/** The ordinals with the highest scores, the best first; of equal ones the newer. */
export function best(scores: Float32Array, count: number): number[] {
  const limit = limitOf(scores, count);
  const found: number[] = [];
  for (let i = scores.length - 1; i > 0; i--)
    if (scores[i]! >= limit && scores[i]! > 0) found.push(i);
  return found.sort((a, b) => scores[b]! - scores[a]! || b - a).slice(0, count);
}

/** A score that few more than `count` records reach: sorting all of them would take longer. */
function limitOf(scores: Float32Array, count: number): number {
  let highest = 0;
  for (let i = 0; i < scores.length; i++) if (scores[i]! > highest) highest = scores[i]!;
  const reached = new Uint32Array(STEPS + 1);
  const scale = highest === 0 ? 0 : STEPS / highest;
  for (let i = 0; i < scores.length; i++) {
    const score = scores[i]!;
    if (score > 0) reached[(score * scale) | 0]!++;
  }
  let step = STEPS;
  for (let sum = reached[step]!; sum < count && step > 0; sum += reached[step]!) step--;
  // Rounding may have put a score one step too high.
  return ((step - 1) / STEPS) * highest;
}
