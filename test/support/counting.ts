// A runtime whose agents count: every effect they ask for is one line in a file, so that a test can
// see how often each one really happened.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { killWhoIsAsked } from './kills.ts';
import { eventually, freshDir, startRuntime, type TestRuntime, writableFile } from './runtime.ts';

const worker = (name: string) => `apiVersion: agentd/v1
kind: Agent
metadata: { name: ${name}, description: Counts. }
spec:
  replicas: 8
  tools: { allow: [test.tools, task.delegate] }
`;

export type Counting = {
  runtime: TestRuntime;
  effectFile: string;
  /** key → how often it happened. */
  effects(): Map<string, number>;
  /** The next time this moment comes, after `passes` times, that daemon (or every runner) dies. */
  armCrash(failpoint: string, options?: { passes?: number; who?: 'runners' | 'warden' }): void;
  crashCame(): boolean;
  /**
   * Answers every question about an unknown outcome with the truth, until `done`. Gives how many.
   */
  answerTruthfully(done: () => Promise<boolean>, withinMs?: number): Promise<number>;
};

export async function startCounting(mode: 'embedded' | 'split' = 'split'): Promise<Counting> {
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
    config: `agentd: { crashes_max: 100000, runs_live_max: 4 }\ntoold: { test_tools: true, test_effect_file: ${effectFile} }\n`,
  });
  const crashFile = join(runtime.stateDir, 'crash-at');
  setInterval(() => killWhoIsAsked(runtime), 5).unref();
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
    crashCame: () => !existsSync(crashFile),
    async answerTruthfully(done, withinMs = 120_000) {
      let answered = 0;
      await eventually(
        'everything to end',
        async () => {
          const { waits } = await runtime.agentd.listWaits({
            query: { status: 'open', kind: 'question', limit: 500 },
          });
          for (const wait of waits) {
            const { call } = await runtime.toold.getCall({ params: { id: wait.call_id } });
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
