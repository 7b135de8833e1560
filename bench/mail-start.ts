// Measures the time from the arrival of a mail to the first model call of the agent it is for,
// compared with a task that is created for the same agent.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { writePersonKey } from '../src/daemons/approvald/testing/person-key.ts';
import type { AgentName } from '../src/wire/primitives.ts';
import { eventually, freshDir, type TestRuntime, taskEnded } from '../test/support/runtime.ts';
import { connectSmtp, writeMail } from '../test/support/smtp.ts';
import { type BenchUpstream, startUpstream } from './children.ts';
import type { Benchmark, Figure } from './figure.ts';
import { compare, type Measure } from './rounds.ts';
import { startBenchRuntime } from './world.ts';

const TURNS = { rounds: 5, turnsPerRound: 10 };
const WARM_UP = 3;
const AGENT = 'coder' as AgentName;
const PERSON = 'ann';
/** The agent has a spare runner again after this. */
const REST_MS = 450;

const monotonicMs = (): number => Number(process.hrtime.bigint()) / 1e6;

let goals = 1;

/** Resolves once the task is over and the agent has a spare runner again. */
async function waitForArrival(
  runtime: TestRuntime,
  upstream: BenchUpstream,
  number: number,
): Promise<number> {
  const atMs = await eventually(
    'the first model call',
    async () => (await upstream.arrivalOf(number)) ?? undefined,
  );
  const { tasks } = await runtime.agentd.listTasks({ query: { limit: 1 } });
  await taskEnded(runtime, tasks[0]!.id);
  await new Promise((resolve) => setTimeout(resolve, REST_MS));
  return atMs;
}

/** From the moment at which the whole mail is on its way; its session is open before. */
function timeMail(runtime: TestRuntime, upstream: BenchUpstream): Measure {
  const path = join(runtime.runtimeDir, 'maild', 'smtp', 'smtp.sock');
  const login = Buffer.from(`\0${PERSON}\0${PERSON.repeat(32)}`).toString('base64');
  return async () => {
    const number = goals++;
    const session = await connectSmtp({ path });
    for (const line of [
      'EHLO bench',
      `AUTH PLAIN ${login}`,
      'MAIL FROM:<ann@example.org>',
      `RCPT TO:<${AGENT}@localhost>`,
      'DATA',
    ]) {
      const reply = await session.say(line);
      if (!/^[23]/.test(reply)) throw new Error(`${line}: ${reply}`);
    }
    const mail = writeMail({ Subject: `goal-number-${number}` }, 'Please.\n');
    const beganMs = monotonicMs();
    session.write(`${mail.replaceAll('\n', '\r\n')}.\r\n`);
    const reply = await session.reply();
    if (!reply.startsWith('250')) throw new Error(reply);
    session.close();
    return (await waitForArrival(runtime, upstream, number)) - beganMs;
  };
}

function timeTask(runtime: TestRuntime, upstream: BenchUpstream): Measure {
  return async () => {
    const number = goals++;
    const beganMs = monotonicMs();
    const goal = `goal-number-${number}\n\nPlease.`;
    await runtime.agentd.createTask({ body: { goal, agent: AGENT } });
    return (await waitForArrival(runtime, upstream, number)) - beganMs;
  };
}

async function run(): Promise<Figure[]> {
  const base = freshDir();
  writePersonKey(join(base, 'state'), PERSON);
  const upstream = await startUpstream();
  const runtime = await startBenchRuntime(upstream.port, { base });
  try {
    const [mail, task] = [timeMail(runtime, upstream), timeTask(runtime, upstream)];
    for (let i = 0; i < WARM_UP; i++) {
      await mail();
      await task();
    }
    const { own, peer, ratio } = await compare(TURNS, mail, task);
    return [
      {
        name: 'mail arrived → first model call at the provider, p50',
        unit: 'ms',
        own,
        peer: { name: 'task created', ...peer },
        ratio,
        bar: { of: 'ratio', max: 1.3 },
      },
    ];
  } finally {
    await runtime.remove();
    await upstream.stop();
    rmSync(base, { recursive: true, force: true });
  }
}

export const mailStart: Benchmark = {
  name: 'mail-start',
  about: "mail arrived → its agent's first model call, compared with a task that is created",
  run,
};
