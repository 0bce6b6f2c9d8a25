//! A straight line through measurements, and how sure its slope is.

/// A fitted line.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Change of the value per unit of the other axis.
    pub slope: f64,
    /// Standard error of the slope.
    pub error: f64,
}

/// Least squares through `(x, y)`; None for fewer than three points or one x.
pub fn fit(points: &[(f64, f64)]) -> Option<Line> {
    let count = points.len() as f64;
    if points.len() < 3 {
        return None;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    if spread == 0.0 {
        return None;
    }
    let slope = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>() / spread;
    let rest: f64 = points.iter().map(|p| (p.1 - y - slope * (p.0 - x)).powi(2)).sum();
    Some(Line { slope, error: (rest / (count - 2.0) / spread).sqrt() })
}

#[cfg(test)]
mod tests {
    use super::fit;

    #[test]
    fn a_line_is_found_and_noise_has_no_slope() {
        let line = fit(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]).unwrap();
        assert!((line.slope - 2.0).abs() < 1e-9 && line.error < 1e-9, "{line:?}");
        let noise = fit(&[(0.0, 1.0), (1.0, -1.0), (2.0, 1.0), (3.0, -1.0), (4.0, 1.0)]).unwrap();
        assert!(noise.slope.abs() < noise.error, "{noise:?}");
        assert!(fit(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]).is_none());
    }
}
