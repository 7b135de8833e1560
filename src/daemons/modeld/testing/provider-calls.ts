// Makes one call through the provider client against a test's own server.
import assert from 'node:assert/strict';
import http from 'node:http';
import type { AddressInfo, ListenOptions } from 'node:net';
import { manualClock } from '../../../platform/clock.ts';
import { Fault } from '../../../wire/errors.ts';
import {
  makeProviderClient,
  type Provider,
  type ProviderCall,
} from '../adapters/provider-client.ts';

export const KEY = 'sk-very-secret-1234567890';
export const clock = manualClock(Date.parse('2026-11-11T10:00:00Z'));
const client = makeProviderClient({ clock });
export const closing: (() => void)[] = [];
/** Call after each test. */
export const closeServers = (): void => {
  for (const close of closing.splice(0)) close();
};

export type ProviderScript = (
  request: http.IncomingMessage,
  response: http.ServerResponse,
  body: string,
) => void;

export async function serve(
  answering: ProviderScript,
  where: ListenOptions = { port: 0, host: '127.0.0.1' },
) {
  const server = http.createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => answering(request, response, body));
  });
  await new Promise<void>((resolve) => server.listen(where, resolve));
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return server;
}

export const providerAt = (baseUrl: string, more: Partial<Provider> = {}): Provider => ({
  name: 'acme',
  dialect: 'openai',
  baseUrl,
  readKey: () => KEY,
  ...more,
});

export async function provide(
  answering: ProviderScript,
  more: Partial<Provider> = {},
): Promise<Provider> {
  const server = await serve(answering);
  return providerAt(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, more);
}

export const LIMITS = { connectTimeoutMs: 2_000, firstByteTimeoutMs: 2_000, idleTimeoutMs: 2_000 };
const callOf = (provider: Provider, more: Partial<ProviderCall> = {}) => ({
  provider,
  body: '{"x":"é"}',
  deadlineMs: 5_000,
  limits: LIMITS,
  ...more,
});
export const whole = (provider: Provider, more: Partial<ProviderCall> = {}) =>
  client.callProvider({ ...callOf(provider, more), stream: false });
export const streamed = (provider: Provider, more: Partial<ProviderCall> = {}) =>
  client.callProvider({ ...callOf(provider, more), stream: true });

export const isFault = (code: string, message?: RegExp) => (error: unknown) => {
  assert.ok(error instanceof Fault, String(error));
  assert.equal(error.code, code, error.message);
  if (message !== undefined) assert.match(error.message, message);
  assert.ok(!JSON.stringify(error.toBody()).includes(KEY), 'the key is in the fault');
  return true;
};
export const sendJson = (
  response: http.ServerResponse,
  value: unknown,
  status = 200,
  headers = {},
) =>
  response
    .writeHead(status, { 'content-type': 'application/json', ...headers })
    .end(JSON.stringify(value));
