//! The state of the connection between an operator and the API server for a while: late answers, errors,
//! missing answers, watches that are cut again and again, or that lag behind each other.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::StatusCode;
use http_body::Frame;
use kube::client::Body;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// What it is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weather {
    /// Nothing goes wrong.
    #[default]
    Fair,
    /// Every answer comes so late.
    Late(Duration),
    /// So many of a hundred answers are errors of a server that is busy. Of the
    /// writes among them every other one is done all the same.
    Errors(u32),
    /// Nobody listens.
    Refused,
    /// Somebody listens, and does not answer.
    Silent,
    /// Every watch is cut after so many messages, in turns with an error and
    /// without a word.
    WatchesCut(usize),
    /// What is seen of one kind (the end of its path, such as `pods`) comes so
    /// much later than what is seen of all others.
    Lagging(&'static str, Duration),
}

impl Weather {
    /// Some of everything, for who draws at random.
    pub const ALL: [Self; 8] = [
        Self::Fair,
        Self::Late(Duration::from_millis(700)),
        Self::Errors(30),
        Self::Refused,
        Self::Silent,
        Self::WatchesCut(2),
        Self::Lagging("pods", Duration::from_secs(2)),
        Self::Lagging("nodes", Duration::from_secs(2)),
    ];
}

/// Chance, the same in each run: who it hits depends on the order of requests.
#[derive(Debug, Default)]
pub(crate) struct Chance(AtomicU64);

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered,
    Refused(StatusCode),
    /// It is done, and the answer says that it may not be.
    DoneAndRefused(StatusCode),
}

impl Chance {
    /// What becomes of the next request, where so many of a hundred fail.
    pub(crate) fn next(&self, of_a_hundred: u32) -> Fate {
        let n = self.0.fetch_add(1, Ordering::Relaxed);
        // splitmix64: requests come in patterns, and chance must have none.
        let mut drawn = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        drawn ^= drawn >> 31;
        if drawn % 100 >= u64::from(of_a_hundred) {
            return Fate::Answered;
        }
        match drawn / 100 % 4 {
            0 => Fate::Refused(StatusCode::TOO_MANY_REQUESTS),
            1 => Fate::Refused(StatusCode::SERVICE_UNAVAILABLE),
            2 => Fate::DoneAndRefused(StatusCode::GATEWAY_TIMEOUT),
            _ => Fate::DoneAndRefused(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }
}

/// That nobody listens.
pub(crate) fn connection_refused() -> kube::Error {
    kube::Error::Service(Box::new(io::Error::from(io::ErrorKind::ConnectionRefused)))
}

/// What becomes of the messages of a watch on their way.
#[derive(Debug, Default)]
pub(crate) struct Fare {
    /// Nothing comes once this is cancelled, without an end and without an error.
    pub(crate) silent: Option<CancellationToken>,
    /// So many come, and then an end: without a word, or with an error.
    pub(crate) cut: Option<(usize, End)>,
    /// Each comes so much later.
    pub(crate) late: Option<Duration>,
}

/// How a watch that is cut ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Silently,
    Badly,
}

/// What a message is made of.
type Data = <Body as http_body::Body>::Data;

/// An answer on its way.
pub(crate) struct Answer {
    body: Body,
    fare: Fare,
    /// What has come and is not handed on yet, with the moment at which it is.
    held: VecDeque<(Instant, Frame<Data>)>,
    alarm: Option<Pin<Box<Sleep>>>,
    ended: bool,
}

impl Answer {
    pub(crate) fn new(body: Body, fare: Fare) -> Self {
        Self { body, fare, held: VecDeque::new(), alarm: None, ended: false }
    }

    /// Takes in what has come, with the moment at which it may be handed on.
    fn take_in(&mut self, context: &mut Context<'_>, late: Duration) -> Poll<Result<(), kube::Error>> {
        loop {
            match http_body::Body::poll_frame(Pin::new(&mut self.body), context) {
                Poll::Ready(Some(Ok(frame))) => self.held.push_back((Instant::now() + late, frame)),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                Poll::Ready(None) => {
                    self.ended = true;
                    return Poll::Ready(Ok(()));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// The next message that is due.
    fn poll_late(
        &mut self,
        context: &mut Context<'_>,
        late: Duration,
    ) -> Poll<Option<Result<Frame<Data>, kube::Error>>> {
        if !self.ended
            && let Poll::Ready(Err(error)) = self.take_in(context, late)
        {
            return Poll::Ready(Some(Err(error)));
        }
        let Some((due, _)) = self.held.front() else {
            return if self.ended { Poll::Ready(None) } else { Poll::Pending };
        };
        let alarm = self.alarm.insert(Box::pin(sleep_until(*due)));
        match alarm.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(self.held.pop_front().map(|(_, frame)| Ok(frame))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl http_body::Body for Answer {
    type Data = Data;
    type Error = <Body as http_body::Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.fare.silent.as_ref().is_some_and(CancellationToken::is_cancelled) {
            return Poll::Pending;
        }
        if let Some(late) = self.fare.late {
            return self.poll_late(context, late);
        }
        let this = &mut *self;
        match &mut this.fare.cut {
            None => {}
            Some((0, End::Silently)) => return Poll::Ready(None),
            Some((0, End::Badly)) => {
                this.fare.cut = Some((0, End::Silently));
                let error = io::Error::from(io::ErrorKind::ConnectionReset);
                return Poll::Ready(Some(Err(kube::Error::Service(Box::new(error)))));
            }
            Some((left, _)) => {
                let frame = Pin::new(&mut this.body).poll_frame(context);
                return frame.map(|frame| {
                    *left -= usize::from(frame.is_some());
                    frame
                });
            }
        }
        Pin::new(&mut self.body).poll_frame(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_hits_about_as_many_as_it_should_in_every_way() {
        let chance = Chance::default();
        let fates: Vec<Fate> = (0..1000).map(|_| chance.next(30)).collect();
        let failed = fates.iter().filter(|fate| **fate != Fate::Answered).count();
        assert!((270..330).contains(&failed), "{failed}");
        let done = fates.iter().filter(|fate| matches!(fate, Fate::DoneAndRefused(_))).count();
        assert!((100..200).contains(&done), "{done}");
        let fair = Chance::default();
        assert!((0..1000).all(|_| fair.next(0) == Fate::Answered));
    }
}
