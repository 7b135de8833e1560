// Keeps the policy of the published bundle, compiled once.
import type { Clock } from '../../../platform/clock.ts';
import type { Bundle } from '../../../policy/bundle.ts';
import { makePolicy, type Policy } from '../../../policy/decide.ts';

export function makeCurrentPolicy(bundle: () => Bundle, clock: Clock): () => Policy {
  let cached: Policy | undefined;
  return () => {
    const published = bundle();
    if (cached?.hash !== published.hash || cached.version !== published.version)
      cached = makePolicy(published, clock);
    return cached;
  };
}
