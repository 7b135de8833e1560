// A runtime whose agents' effects are counted: each is one line in a file, so that a test sees how
// often it really happened.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { killRequested } from './kills.ts';
import { eventually, freshDir, startRuntime, type TestRuntime, writableFile } from './runtime.ts';

const worker = (name: string) => `apiVersion: agentd/v1
kind: Agent
metadata: { name: ${name}, description: Counts. }
spec:
  replicas: 8
  tools: { allow: [test.tools, task.delegate] }
`;

export type CountingRuntime = {
  runtime: TestRuntime;
  effectFile: string;
  /** Key → number of times it happened. */
  effects(): Map<string, number>;
  /** At this failpoint, after `passes` passes, the daemon (or every runner) is killed. */
  armCrash(failpoint: string, options?: { passes?: number; who?: 'runners' | 'warden' }): void;
  hasCrashed(): boolean;
  /**
   * Answers every question about an unknown outcome truthfully, until `done`. Resolves with the
   * number of answers.
   */
  answerTruthfully(done: () => Promise<boolean>, withinMs?: number): Promise<number>;
};

export async function startCountingRuntime(
  mode: 'embedded' | 'split' = 'split',
): Promise<CountingRuntime> {
  const base = freshDir();
  const effectFile = writableFile(join(base, 'effects'));
  const runtime = await startRuntime({
    base,
    mode,
    faults: true,
    agents: {
      planner: worker('planner'),
      researcher: worker('researcher'),
      coder: worker('coder'),
    },
    config: `agentd: { crashes_max: 100000, runs_live_max: 4 }\ntoold: { test_tools: true, test_effect_file: ${effectFile} }\nsandboxd: { runner_spares: 0 }\n`,
  });
  const crashFile = join(runtime.stateDir, 'crash-at');
  setInterval(() => killRequested(runtime), 5).unref();
  const effects = (): Map<string, number> => {
    const counts = new Map<string, number>();
    if (!existsSync(effectFile)) return counts;
    for (const key of readFileSync(effectFile, 'utf8')
      .split('\n')
      .filter((line) => line !== ''))
      counts.set(key, (counts.get(key) ?? 0) + 1);
    return counts;
  };
  return {
    runtime,
    effectFile,
    effects,
    armCrash: (failpoint, { passes = 0, who } = {}) =>
      writeFileSync(crashFile, [failpoint, passes, who ?? ''].join(' ').trim()),
    hasCrashed: () => !existsSync(crashFile),
    async answerTruthfully(done, withinMs = 120_000) {
      let answered = 0;
      await eventually(
        'all tasks to end',
        async () => {
          const { waits } = await runtime.agentd.listWaits({
            query: { status: 'open', kind: 'question', limit: 500 },
          });
          for (const wait of waits) {
            const { call } = await runtime.toold.getCall({ params: { id: wait.call_id! } });
            const happened = effects().has(String(call.arguments.key));
            await runtime.agentd.answerWait({
              params: { id: wait.id },
              body: { answer: wait.choices[happened ? 0 : 1]! },
            });
            answered++;
          }
          return (await done()) ? true : undefined;
        },
        withinMs,
      );
      return answered;
    },
  };
}
