// The runtime of the benchmarks, whose only provider is the bench's own upstream, and the body of
// every request to it.
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  freshDir,
  type RuntimeOptions,
  startRuntime,
  type TestRuntime,
} from '../test/support/runtime.ts';

export const MODEL = 'bench-model';

/** Everything on: a key, prices, budgets of both kinds, the default limits. */
export function providerConfig(upstreamPort: number, keyFile: string): string {
  return `modeld:
  providers:
    bench:
      dialect: openai
      base_url: http://127.0.0.1:${upstreamPort}/v1
      key_file: ${keyFile}
      models: [${MODEL}]
  models:
    default: { routes: [{ provider: bench, model: ${MODEL} }] }
  prices:
    ${MODEL}: { input: 2.5, output: 10 }
  budgets:
    site: { tokens: 1000000000000000, cost_usd: 100000000 }
    day: { tokens: 1000000000000000, cost_usd: 100000000 }
`;
}

export function startBenchRuntime(
  upstreamPort: number,
  options: RuntimeOptions & { moreConfig?: string } = {},
): Promise<TestRuntime> {
  const base = options.base ?? freshDir();
  mkdirSync(base, { recursive: true });
  const keyFile = join(base, 'provider.key');
  writeFileSync(keyFile, 'sk-bench-0123456789\n', { mode: 0o600 });
  chmodSync(keyFile, 0o600);
  const config = `${providerConfig(upstreamPort, keyFile)}${options.moreConfig ?? ''}`;
  return startRuntime({ ...options, base, config });
}

const PERSONA =
  'You are the reviewer of a small team. Read with care what you are given, say what is wrong, ' +
  'and propose the smallest change that mends it. Do not praise. Name files and lines. '.repeat(5);

/** A chat completion as an SDK sends it; each is different. */
export const CHAT = JSON.stringify({
  model: MODEL,
  messages: [
    { role: 'system', content: PERSONA },
    {
      role: 'user',
      content:
        'Request #{26}: the function reads the whole file before it knows how large it is, and ' +
        'the caller keeps the result as long as the connection lives. What should change, where?',
    },
  ],
  max_completion_tokens: 512,
  temperature: 0.2,
});
