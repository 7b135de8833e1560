// Reads the memories among the inputs of a task: when it is created, to check the rights of who
// gives them and of the agent that gets them, and for the briefing, as they are then.
import { isFault } from '../../../platform/daemon.ts';
import type { Client } from '../../../platform/link.ts';
import type { TaskInput } from '../../../wire/agentd.ts';
import type { InputMemory, InputReader } from '../../../wire/memoryd/for-agentd.ts';
import type { memorydRoutes } from '../../../wire/memoryd.ts';
import type { Label, Principal } from '../../../wire/primitives.ts';
import { filterMarks } from '../store/marks.ts';
import type { RunRow, TaskRow } from '../store/rows.ts';
import type { AgentdStore } from '../store/store.ts';
import { describeRun } from './recall.ts';

export type InputGiver = { principal: string; owner?: string | null | undefined };
export type BriefedInput = { name: string; text: string; labels: Label[] };

export type MemoryInputs = {
  /**
   * Returns the marks that they bring. Throws if the giver or the agent may not read one. Without
   * an agent, the briefing of the one that gets the task decides.
   */
  check(inputs: readonly TaskInput[], giver: InputGiver, agent: string | null): Promise<Label[]>;
  /** Those that are gone, are marked since, or that the agent may no longer read are only named. */
  read(
    run: RunRow,
    task: TaskRow,
    inputs: readonly TaskInput[],
  ): Promise<Map<string, BriefedInput>>;
};

const listIds = (inputs: readonly TaskInput[]): string[] => [
  ...new Set(inputs.flatMap(({ kind, id = '' }) => (kind === 'memory_ref' ? [id] : []))),
];

const toReader = (principal: string, owner: string | null | undefined): InputReader => ({
  principal: principal as Principal,
  owner: owner ?? null,
});

export function makeMemoryInputs(deps: {
  memoryd: Pick<Client<typeof memorydRoutes>, 'readInputMemories'>;
  store: Pick<AgentdStore, 'taskRow'>;
}): MemoryInputs {
  const { memoryd, store } = deps;

  const readOne = async (run: RunRow, task: TaskRow, id: string): Promise<BriefedInput> => {
    const root = await store.taskRow(task.root_task_id);
    const { agent, labels, ...ids } = describeRun(run, task);
    const readers = [toReader(`agent:${agent}`, root.owner)];
    const body = { ids: [id], readers, run: ids, labels };
    try {
      const { memories } = await memoryd.readInputMemories({ body });
      const [memory] = memories;
      const more = filterMarks(memory!.labels).filter((mark) => !labels.includes(mark));
      // It would mark the task only after its agent has read it.
      return more.length === 0 ? toBriefed(memory!) : { ...gone, name: id };
    } catch (error) {
      const isGone = ['not_found', 'conflict', 'denied'].some((code) =>
        isFault(error, code as never),
      );
      if (!isGone) throw error;
      return { ...gone, name: id };
    }
  };

  return {
    async check(inputs, giver, agent) {
      const ids = listIds(inputs);
      if (ids.length === 0) return [];
      const readers = [
        toReader(giver.principal, giver.owner),
        ...(agent === null ? [] : [toReader(`agent:${agent}`, giver.owner)]),
      ];
      const { memories } = await memoryd.readInputMemories({ body: { ids, readers, labels: [] } });
      return filterMarks(memories.flatMap(({ labels }) => labels));
    },

    async read(run, task, inputs) {
      const found = new Map<string, BriefedInput>();
      for (const id of listIds(inputs)) found.set(id, await readOne(run, task, id));
      return found;
    },
  };
}

const gone = { text: '(this memory can no longer be given)', labels: [] };

const toBriefed = ({ id, text, labels }: InputMemory): BriefedInput => ({ name: id, text, labels });
