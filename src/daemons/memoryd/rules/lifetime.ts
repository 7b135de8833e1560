// Computes how long a memory is kept: by the most specific entry for its class and scope. Pure.
import { isWithin } from './scopes.ts';

/** Undefined: for ever. */
export function findLifetimeS(
  table: Readonly<Record<string, number>>,
  memory: { class: string; scope: string },
): number | undefined {
  let best: { weight: number; lifetimeS: number } | undefined;
  for (const [key, lifetimeS] of Object.entries(table)) {
    const weight = weigh(key, memory);
    if (weight !== undefined && (best === undefined || weight > best.weight))
      best = { weight, lifetimeS };
  }
  return best?.lifetimeS;
}

/** The longer the scope, the more specific; with the class more than without. */
function weigh(key: string, memory: { class: string; scope: string }): number | undefined {
  const words = key.split(' ');
  const scope = words.find((word) => word !== memory.class);
  const namesClass = words.includes(memory.class);
  if (scope !== undefined && (words.length > 2 || !isWithin(memory.scope, scope))) return undefined;
  return 2 * (scope?.length ?? 0) + (namesClass ? 1 : 0);
}
