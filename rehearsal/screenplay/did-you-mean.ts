// Suggests the known name nearest to a mistyped one, if any is near enough.

export function findNearestName(name: string, known: readonly string[]): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(name.length / 2)) + 1;
  for (const candidate of known) {
    const distance = countEdits(name.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  // An abbreviation such as args needs many edits but shares its first letters.
  return best ?? known.find((candidate) => candidate.startsWith(name.slice(0, 3)));
}

export function formatSuggestion(name: string, known: readonly string[]): string {
  const nearest = findNearestName(name, known);
  return nearest === undefined
    ? `known: ${known.join(', ')}`
    : `did you mean "${nearest}"? Known: ${known.join(', ')}`;
}

function countEdits(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const current = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitutionCost = a[i - 1] === b[j - 1] ? 0 : 1;
      current[j] = Math.min(
        previous[j]! + 1,
        current[j - 1]! + 1,
        previous[j - 1]! + substitutionCost,
      );
    }
    previous = current;
  }
  return previous[b.length]!;
}
