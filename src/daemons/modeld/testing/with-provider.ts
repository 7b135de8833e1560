// Runs one modeld with one fake provider for all tests of a suite.

import { after, before, beforeEach } from 'node:test';
import { makeCallId } from '../../../wire/call-id.ts';
import { type Modeld, runId, startModeld } from './harness.ts';
import { type FakeProvider, startProvider } from './provider.ts';

/** The provider of the current suite. */
export let provider: FakeProvider;
export let modeld: Modeld;

export const callId = (n: number, step = 0) => makeCallId(runId(n), 'm', step);

const oneModel = ({ url }: FakeProvider): Record<string, unknown> => ({
  providers: { local: { dialect: 'openai', base_url: `${url}/v1`, models: ['gpt-test'] } },
  models: {
    'coder-large': { routes: [{ provider: 'local', model: 'gpt-test' }], context_tokens: 9_000 },
  },
  prices: { 'gpt-test': { input: 1, output: 10 } },
});

/** Call it in a suite. Recorded requests and scripted responses are cleared before each test. */
export function startWithProvider(configOf = oneModel): void {
  before(async () => {
    provider = await startProvider();
    modeld = await startModeld({ config: configOf(provider) });
  });
  after(async () => {
    await modeld.stop();
    await provider.close();
  });
  beforeEach(() => {
    provider.requests.length = 0;
    provider.plays.length = 0;
  });
}
