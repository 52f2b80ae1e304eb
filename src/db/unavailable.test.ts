import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isRefused, isUnavailable } from './unavailable.ts';

const failing = (code: string, message = 'failed') => Object.assign(new Error(message), { code });

const away: Readonly<Record<string, Error>> = {
  'no process listens': failing('ECONNREFUSED'),
  'the connection was reset': failing('ECONNRESET'),
  'the connection was closed during a response': failing('CONNECTION_CLOSED'),
  'connecting timed out': failing('CONNECT_TIMEOUT'),
  'there is no socket file': Object.assign(failing('ENOENT'), { syscall: 'connect' }),
  'the connection failed (08006)': failing('08006'),
  'PgBouncer has no server (08P01)': failing('08P01'),
  'the server is shut down': failing('57P01'),
  'a process of the server crashed': failing('57P02'),
  'the server is starting': failing('57P03'),
  'the session was idle for too long': failing('57P05'),
  'the transaction was idle for too long': failing('25P03'),
  'the disk is full': failing('53100'),
  'there are too many connections': failing('53300'),
  'the server is read-only': failing('25006'),
  'a standby is asked to write': failing('0A000', 'cannot set transaction read-write mode during recovery'),
};
for (const [what, error] of Object.entries(away)) {
  test(`the database is unavailable when ${what}`, () => assert.equal(isUnavailable(error), true));
}

const there: Readonly<Record<string, unknown>> = {
  'a constraint is violated': failing('23514'),
  'a statement took too long': failing('57014'),
  'a lock was not available': failing('55P03'),
  'two transactions deadlocked': failing('40P01'),
  'another transaction was faster': failing('40001'),
  'memory ran out': failing('53200'),
  'a page cannot be read': failing('58030'),
  'data is corrupt': failing('XX001'),
  'something is not implemented': failing('0A000', 'not implemented'),
  'a file is missing': Object.assign(failing('ENOENT'), { syscall: 'open' }),
  'there is no code': new Error('failed'),
  'a program ended with a code': Object.assign(new Error('failed'), { code: 1 }),
  'it is no error': { code: 'ECONNRESET' },
};
for (const [what, error] of Object.entries(there)) {
  test(`the database is available when ${what}`, () => assert.equal(isUnavailable(error), false));
}

const refused: Readonly<Record<string, Error>> = {
  'a constraint is violated': failing('23514'),
  'a number is out of range': failing('22003'),
  'text is not UTF-8': failing('22021'),
  'a row is too large': failing('54000'),
  'a trigger raises': failing('P0001'),
};
for (const [what, error] of Object.entries(refused)) {
  test(`a retry is useless when ${what}`, () => assert.equal(isRefused(error), true));
}

const inTheWay = [...Object.entries(away), ...Object.entries(there)].filter(([what]) => refused[what] === undefined);
for (const [what, error] of inTheWay) {
  test(`a retry may help when ${what}`, () => assert.equal(isRefused(error), false));
}
