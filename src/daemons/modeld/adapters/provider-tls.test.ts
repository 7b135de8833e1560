// Tests providers over TLS: certificate checks, connection reuse and SNI.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { systemClock } from '../../../platform/clock.ts';
import { Fault } from '../../../wire/errors.ts';
import { LIMITS } from '../testing/provider-calls.ts';
import { makeProviderClient } from './provider-client.ts';

const hasOpenssl = (): boolean => {
  try {
    execFileSync('openssl', ['version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
};

describe('providers over TLS', { skip: hasOpenssl() ? false : 'openssl not found' }, () => {
  const dir = mkdtempSync(join(tmpdir(), 'agentd-tls-'));
  const [key, cert] = [join(dir, 'key.pem'), join(dir, 'cert.pem')];
  const names = new Set<string | undefined>();
  let server: https.Server;
  let connections = 0;
  let port: number;

  before(async () => {
    const what = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1'];
    const to = ['-nodes', '-keyout', key, '-out', cert, '-days', '2', '-subj', '/CN=localhost'];
    const also = ['-addext', 'subjectAltName=DNS:localhost'];
    execFileSync('openssl', [...what, ...to, ...also], { stdio: 'ignore' });
    const files = { key: readFileSync(key), cert: readFileSync(cert) };
    server = https.createServer(files, (request, response) => {
      names.add((request.socket as TLSSocket & { servername?: string }).servername);
      request.resume();
      request.on('end', () =>
        response.writeHead(200, { 'content-type': 'application/json' }).end('{"ok":1}'),
      );
    });
    server.on('secureConnection', () => connections++);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    port = (server.address() as AddressInfo).port;
  });
  after(() => {
    server.closeAllConnections();
    server.close();
    rmSync(dir, { recursive: true, force: true });
  });

  it('an untrusted certificate is rejected before anything is sent', async () => {
    const client = makeProviderClient({ clock: systemClock() });
    const provider = {
      name: 'acme',
      dialect: 'openai' as const,
      baseUrl: `https://localhost:${port}`,
      readKey: () => 'sk-1',
    };
    await assert.rejects(
      client.callProvider({
        provider,
        body: '{}',
        stream: false,
        deadlineMs: 5_000,
        limits: LIMITS,
      }),
      (error: Fault) => {
        assert.ok(error instanceof Fault);
        assert.equal(error.code, 'provider_down');
        assert.equal(error.details?.reason, 'DEPTH_ZERO_SELF_SIGNED_CERT');
        return true;
      },
    );
    client.close();
    assert.deepEqual([...names], []);
  });

  it('a trusted connection is used for several calls', async () => {
    const code = `import { makeProviderClient } from ${JSON.stringify(join(import.meta.dirname, 'provider-client.ts'))};
      const client = makeProviderClient({ clock: { nowMs: () => Date.now() } });
      const provider = { name: 'acme', dialect: 'openai', baseUrl: 'https://localhost:${port}', readKey: () => 'k' };
      for (let i = 0; i < 3; i++) {
        const limits = ${JSON.stringify(LIMITS)};
        const call = { provider, body: '{}', stream: false, deadlineMs: 5_000, limits };
        console.log(JSON.stringify((await client.callProvider(call)).json));
      }
      client.close();`;
    const child = spawn(process.execPath, ['--input-type=module-typescript', '-e', code], {
      env: { PATH: process.env.PATH, NODE_EXTRA_CA_CERTS: cert },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    connections = 0;
    let text = '';
    for await (const chunk of child.stdout) text += chunk;
    assert.equal(text, '{"ok":1}\n'.repeat(3));
    assert.equal(connections, 1);
    assert.deepEqual([...names], ['localhost']);
  });
});
