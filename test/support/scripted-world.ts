// A world with a scripted model, and the queries that scenarios need.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { CreateTask, TaskView, WaitView } from '../../src/wire/agentd.ts';
import { Fault, type FaultCode } from '../../src/wire/errors.ts';
import { type InProcessWorld, startWorld, type WorldOptions } from './in-process.ts';
import { type Clients, eventually, taskEnded } from './runtime.ts';
import { type ScriptedModel, startScriptedModel } from './scripted-model.ts';

export type ScriptedWorld = InProcessWorld & { model: ScriptedModel };

export const manifestOf = (name: string, spec = '{}', description = `Is ${name}.`): string =>
  `apiVersion: agentd/v1
kind: Agent
metadata: { name: ${name}, description: ${description} }
spec: ${spec}
`;

const FREE = '{ replicas: 8, tools: { allow: [test.tools, task.delegate] } }';
export const TEAM = Object.fromEntries(
  ['planner', 'researcher', 'coder'].map((name) => [name, manifestOf(name, FREE)]),
);

/** Configures the scripted model as a provider with one model. */
export const scriptedModels = (url: string) => ({
  providers: { scripted: { dialect: 'openai', base_url: url } },
  models: { default: { routes: [{ provider: 'scripted', model: 'scripted-1' }] } },
  prices: { 'scripted-1': { input: 1, output: 10 } },
});

export async function startScriptedWorld(options: WorldOptions = {}): Promise<ScriptedWorld> {
  const model = await startScriptedModel();
  const world = await startWorld({
    agents: TEAM,
    ...options,
    upstream: model.url,
    toold: { test_tools: true, ...options.toold },
    modeld: { ...scriptedModels(model.url), ...options.modeld },
  });
  const stop = async () => {
    await world.stop();
    await model.close();
  };
  return { ...world, model, stop };
}

export async function create(
  clients: Clients,
  goal: string,
  more: Partial<CreateTask> = {},
): Promise<TaskView> {
  return (await clients.agentd.createTask({ body: { goal, ...more } })).task;
}

/** Creates a task and waits for its end. */
export async function doTask(
  clients: Clients,
  goal: string,
  more: Partial<CreateTask> = {},
): Promise<TaskView> {
  return taskEnded(clients, (await create(clients, goal, more)).id);
}

export async function taskNow(clients: Clients, id: string): Promise<TaskView> {
  return (await clients.agentd.getTask({ params: { id: id as never } })).task;
}

export function reaches(clients: Clients, id: string, status: TaskView['status']) {
  return eventually(`${id} to be ${status}`, async () => {
    const task = await taskNow(clients, id);
    return task.status === status ? task : undefined;
  });
}

export function openWait(
  clients: Clients,
  taskId: string,
  kind: WaitView['kind'],
): Promise<WaitView> {
  return eventually(`a ${kind} to be waited for`, async () => {
    const query = { status: 'open', kind, task_id: taskId as never } as const;
    return (await clients.agentd.listWaits({ query })).waits[0];
  });
}

/**
 * Resolves with the pids of runners once there are `count`: one that is ending may still be listed.
 */
export function runnerPids(stateDir: string, count: number): Promise<number[]> {
  return eventually(`${count} runners`, async () => {
    const names = readdirSync(join(stateDir, 'runners'));
    return names.length === count ? names.map((name) => Number(name.split('-')[0])) : undefined;
  });
}

/** Resolves with the fault, and asserts its code. */
export async function refusedWith(code: FaultCode, work: Promise<unknown>): Promise<Fault> {
  const error = await work.then(
    () => new Error('it was not refused'),
    (reason: unknown) => reason,
  );
  if (error instanceof Fault && error.code === code) return error;
  throw new Error(`it should have been refused with ${code}`, { cause: error });
}
