// Measures agentctl status against a running runtime, the most frequent command.
import { join } from 'node:path';
import { ROOT, startRuntime } from '../test/support/runtime.ts';
import { bareStart, timeProcess } from './bare-start.ts';
import type { Benchmark, Figure } from './figure.ts';
import { compare } from './rounds.ts';

const TURNS = { rounds: 5, turnsPerRound: 12 };
const WARM_UP = 3;

async function run(): Promise<Figure[]> {
  const runtime = await startRuntime();
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: process.env.HOME ?? '',
    AGENTD_STATE: runtime.stateDir,
  };
  const wrapped = () => timeProcess(join(ROOT, 'bin', 'agentctl'), ['status'], env);
  const bundle = join(ROOT, 'build', 'agentctl.mjs');
  const bundled = () => timeProcess(process.execPath, [bundle, 'status'], env);
  try {
    const bare = bareStart();
    for (let i = 0; i < WARM_UP; i++) for (const one of [wrapped, bundled, bare]) await one();
    const whole = await compare(TURNS, wrapped, bare);
    const inner = await compare({ ...TURNS, rounds: 3 }, bundled, bare);
    const peer = { name: 'bare Node start' };
    return [
      {
        name: 'agentctl status, p50',
        unit: 'ms',
        ...whole,
        peer: { ...peer, ...whole.peer },
        bar: { of: 'ratio', max: 2.5 },
      },
      {
        name: 'agentctl status without bin/agentctl around it, p50',
        unit: 'ms',
        ...inner,
        peer: { ...peer, ...inner.peer },
      },
    ];
  } finally {
    await runtime.remove();
  }
}

export const status: Benchmark = {
  name: 'status',
  about: 'agentctl status, compared with a bare start of Node',
  run,
};
