// The changes of a recorded apply, as text.
import type { ChangeSide, LayerChange } from './adapters/boxfs-changes.ts';

/** The layer's side, where the new one was merged. */
type WithAgents = LayerChange & { agents?: ChangeSide | undefined };

/** An apply compares contents of both sides, so the rest is left out. */
export const encodeChanges = (changes: readonly WithAgents[]): string =>
  JSON.stringify(changes, (key, value: unknown) =>
    key === 'changedNs' || key === 'base' ? undefined : value,
  );

export function decodeChanges(text: string): WithAgents[] {
  const changes = JSON.parse(text) as WithAgents[];
  return changes.map((change) => ({
    ...change,
    before: change.before && { ...change.before, changedNs: 0n },
    after: change.after && { ...change.after, changedNs: 0n },
    agents: change.agents && { ...change.agents, changedNs: 0n },
  }));
}
