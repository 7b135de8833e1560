// Picks the best of many scores without sorting all of them.

const STEPS = 1_024;

/** The ordinals with the highest scores, the best first; of equal ones the newer. */
export function best(scores: Float32Array, count: number): number[] {
  const limit = limitOf(scores, count);
  const found: number[] = [];
  for (let i = scores.length - 1; i > 0; i--)
    if (scores[i]! > 0 && scores[i]! >= limit) found.push(i);
  return found.sort((a, b) => scores[b]! - scores[a]! || b - a).slice(0, count);
}

/** A score that few more than `count` records reach: sorting all of them would take longer. */
function limitOf(scores: Float32Array, count: number): number {
  let highest = 0;
  for (let i = 0; i < scores.length; i++) if (scores[i]! > highest) highest = scores[i]!;
  if (highest === 0) return 0;
  const reached = new Uint32Array(STEPS + 1);
  for (let i = 0; i < scores.length; i++) reached[Math.floor((scores[i]! / highest) * STEPS)]!++;
  let step = STEPS;
  for (let sum = reached[step]!; sum < count && step > 0; sum += reached[step]!) step--;
  return (step / STEPS) * highest;
}
