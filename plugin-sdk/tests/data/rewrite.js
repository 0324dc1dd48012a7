// Rewrites a session as any JavaScript program would: each line parsed and spelled anew.
const fs = require('fs'), file = process.argv[2];
const lines = fs.readFileSync(file, 'utf8').trimEnd().split('\n');
fs.writeFileSync(file, lines.map(line => JSON.stringify(JSON.parse(line)) + '\n').join(''));
