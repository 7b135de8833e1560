// A real runtime on its own port. Its two providers are one recording upstream, called in OpenAI's
// and in Anthropic's dialect.
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type RecordingUpstream, startRecordingUpstream } from '../support/recording-upstream.ts';
import { freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';

export const UPSTREAM_KEY = 'the-secret-key-of-the-provider';

export type VendorClients = {
  runtime: TestRuntime;
  upstream: RecordingUpstream;
  /** http://127.0.0.1:PORT */
  url: string;
  close(): Promise<void>;
};

export async function startForClients(): Promise<VendorClients> {
  const upstream = await startRecordingUpstream();
  const base = freshDir();
  const keyFile = join(base, 'provider.key');
  writeFileSync(keyFile, `${UPSTREAM_KEY}\n`);
  chmodSync(keyFile, 0o600);
  const provider = (dialect: string, path: string, models: string) =>
    `{ dialect: ${dialect}, base_url: "${upstream.url}${path}", key_file: ${keyFile}, models: [${models}] }`;
  const runtime = await startRuntime({
    base,
    port: 0,
    config: `modeld:
  providers:
    open: ${provider('openai', '/v1', 'gpt-up')}
    anth: ${provider('anthropic', '', 'claude-up')}
  models:
    coder-large: { routes: [{ provider: anth, model: claude-up }], max_output_tokens: 4096 }
  aliases: { "o3*": claude-up }
  default_model: gpt-up
`,
  });
  const clients: VendorClients = {
    runtime,
    upstream,
    url: `http://127.0.0.1:${runtime.info.port}`,
    async close() {
      // A test may have restarted it.
      await clients.runtime.remove();
      await upstream.close();
    },
  };
  return clients;
}
