// Reads memories that somebody gives to a task. Who gives them must be allowed to read them, and so
// must the agent that gets them. What a run gets is an event, like a recall.
import { fault } from '../../../wire/errors.ts';
import type { InputMemory, InputReader } from '../../../wire/memoryd/for-agentd.ts';
import { MemoryId } from '../../../wire/memoryd/records.ts';
import type { Label, RunId, TaskId } from '../../../wire/primitives.ts';
import type { Finder } from './finder.ts';
import type { RecordRecall } from './recall.ts';
import type { Actor, Rights } from './rights.ts';

export type InputQuery = {
  ids: readonly string[];
  /** Who gives them comes first. */
  readers: readonly InputReader[];
  run?: { run_id: RunId; task_id: TaskId; root_task_id: TaskId } | undefined;
  labels: readonly Label[];
};
export type ReadInputs = (query: InputQuery) => Promise<InputMemory[]>;

const AGENT = 'agent:';

export function makeReadInputs(deps: {
  finder: Pick<Finder, 'view'>;
  rights: Pick<Rights, 'canRead' | 'decide' | 'deny'>;
  recordRecall: RecordRecall;
}): ReadInputs {
  const { finder, rights, recordRecall } = deps;
  return async ({ ids, readers, run, labels }) => {
    const actors = readers.map(({ principal, owner }): Actor => {
      const agent = principal.startsWith(AGENT) ? principal.slice(AGENT.length) : undefined;
      const acting =
        run && agent !== undefined ? { ...run, agent, labels: [...labels] } : undefined;
      return { principal, person: owner ?? undefined, run: acting };
    });
    const [giver, ...others] = actors;
    const memories: InputMemory[] = [];
    for (const id of ids) {
      if (!MemoryId.safeParse(id).success)
        throw fault('bad_request', `${id} is not the id of a memory`);
      const memory = await finder.view(giver!, id);
      if (memory.status !== 'active' || memory.text === null)
        throw fault('conflict', `${id} is ${memory.status}, so it cannot be an input`);
      for (const other of others) {
        const decision = await rights.decide(other, 'memory.read', memory.scope);
        if (decision.answer !== 'allow')
          throw await rights.deny(other, 'memory.read', memory.scope, decision);
      }
      memories.push({
        id: memory.id,
        scope: memory.scope,
        labels: memory.labels,
        text: memory.text,
      });
    }
    if (run !== undefined) await recordRecall(actors.at(-1)!, memories);
    return memories;
  };
}
