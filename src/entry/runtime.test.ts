// Opening a runtime reads the configuration once, so that it cannot change in between.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { createWriteStream, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

test('a configuration that can be read only once is enough', async () => {
  const base = mkdtempSync(join(tmpdir(), 'e-'));
  const pipe = join(base, 'agentd.yaml');
  execFileSync('mkfifo', [pipe]);
  mkdirSync(join(base, 'r'), { mode: 0o700 });
  const args = { stateDir: join(base, 'state'), mode: 'embedded', configFile: pipe, readyFd: 1 };
  const code = `import { openRuntime } from ${JSON.stringify(join(import.meta.dirname, 'runtime.ts'))};
    const { config, down } = await openRuntime(${JSON.stringify(args)});
    console.log(Object.keys(config.modeld.providers).join());
    await down();`;
  const child = spawn(process.execPath, ['--input-type=module-typescript', '-e', code], {
    env: { PATH: process.env.PATH, HOME: base, XDG_RUNTIME_DIR: join(base, 'r') },
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: 20_000,
    killSignal: 'SIGKILL',
  });
  try {
    const provider = 'dialect: openai, base_url: http://127.0.0.1:9/v1';
    const text = `modeld: { providers: { mine: { ${provider} } } }
`;
    createWriteStream(pipe).end(text);
    let output = '';
    for await (const chunk of child.stdout) output += chunk;
    assert.equal(output, 'mine\n');
  } finally {
    child.kill('SIGKILL');
    rmSync(base, { recursive: true, force: true });
  }
});
